// The head of a sheet: on a narrow page what is picked lies over the table, and this opens and closes it.

import { button, make } from "../shared/dom.js";
import { hearing } from "../shared/hearing.js";
import { watchTheme } from "../shared/theme.js";

const NARROW = "(max-width: 1000px)";

/** Build it, and keep it up to date; returns what ends it. */
function render({ model, el }) {
  const root = make("section", { class: "sl sl-sheet-head" });
  const toggle = button("", () => turn(!model.get("is_open")), { class: "sl-toggle" });
  root.append(toggle);
  el.append(root);
  const narrow = matchMedia(NARROW);
  const sheet = () => root.closest(".sharelag-sheet");

  function turn(open) {
    model.set("is_open", open);
    try {
      model.save_changes();
    } catch {
      // A page without a kernel: it opens all the same.
    }
  }
  function paint() {
    const [open, box] = [model.get("is_open") || !narrow.matches, sheet()];
    toggle.textContent = `${model.get("words")} ${open ? "▾" : "▴"}`;
    toggle.setAttribute("aria-expanded", String(open));
    root.hidden = !narrow.matches;
    box?.classList.toggle("sharelag-open", open);
    // What is folded away is nothing that keys or a screen reader get to.
    root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
    for (const child of box?.children ?? []) child.inert = !open && !child.contains(root);
  }
  function escape(event) {
    if (event.key !== "Escape" || !narrow.matches || !model.get("is_open") || event.defaultPrevented) return;
    turn(false);
    toggle.focus();
  }
  // A view is rendered before it is put into its box.
  const seen = new IntersectionObserver(paint);
  seen.observe(root);
  root.addEventListener("keydown", escape);
  const stopTheme = watchTheme(root, () => {});
  narrow.addEventListener("change", paint);
  model.on("change:is_open", paint);
  model.on("change:words", paint);
  paint();
  hearing(model);
  return () => {
    model.off("change:is_open", paint);
    model.off("change:words", paint);
    narrow.removeEventListener("change", paint);
    seen.disconnect();
    stopTheme();
    root.remove();
  };
}

export default { render };
