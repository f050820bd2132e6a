// A level and a sentence, buttons that ask Python, and buttons that copy a text.

import { announcer, button, failureOf, make, ownsKeys } from "../shared/dom.js";
import { watchTheme } from "../shared/theme.js";

const MARKS = { ok: "●", note: "◇", unknown: "?", warning: "▲", critical: "■", failed: "✕" };
const CHANGING = ["level", "sentence", "actions", "copies", "busy"];

/** Build it, and keep it up to date; returns what ends it. */
function render({ model, el }) {
  const get = (name) => model.get(name);
  const root = make("section", { class: "sl sl-verdict", "aria-label": "Verdict" });
  const badge = make("strong", { class: "sl-level" });
  const sentence = make("bdi", { class: "sl-sentence" });
  const bar = make("div", { class: "sl-bar" });
  const below = make("div");
  const voice = announcer();
  root.append(make("p", { class: "sl-said" }, badge, " ", sentence), bar, below, voice.element);
  el.append(root);
  const trouble = failureOf(root);
  let buttons = "";

  async function copy(words, text) {
    root.dataset.copied = text.length;
    try {
      await navigator.clipboard.writeText(text);
      below.replaceChildren();
      voice.say(`${words}: copied`);
    } catch {
      // No leave to use the clipboard, as in a page from disk: let people take it themselves.
      const field = ownsKeys(make("textarea", { rows: 5, "aria-label": `${words}: copy it from here`, style: { width: "100%" } }));
      field.value = text;
      below.replaceChildren(make("p", { class: "sl-soft" }, "The browser does not let a page copy here. Take it yourself: "), field);
      field.select();
    }
  }
  function paint() {
    try {
      const level = get("level");
      root.dataset.level = level;
      badge.textContent = level ? `${MARKS[level] ?? ""} ${level}` : "";
      badge.hidden = !level;
      sentence.textContent = get("sentence");
      const wanted = JSON.stringify([get("actions"), get("copies"), get("busy")]);
      if (wanted !== buttons) renew(wanted);
      trouble.mend();
      root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
    } catch (error) {
      trouble.tell(error);
    }
  }
  function renew(wanted) {
    const had = [...bar.children].indexOf(document.activeElement);
    const off = Boolean(get("busy"));
    bar.replaceChildren(
      ...get("actions").map(([name, words]) => button(words, () => model.send({ act: name }), { disabled: off })),
      ...get("copies").map(([words, text]) => button(words, () => copy(words, text))),
      ...(off ? [make("span", { class: "sl-soft", role: "status" }, get("busy"))] : []),
    );
    buttons = wanted;
    if (had >= 0) bar.children[had]?.focus();
  }
  const stopTheme = watchTheme(root, () => {});
  const events = CHANGING.map((name) => [`change:${name}`, paint]);
  for (const [event, act] of events) model.on(event, act);
  paint();
  return () => {
    for (const [event, act] of events) model.off(event, act);
    stopTheme();
    voice.stop();
    root.remove();
  };
}

export default { render };
