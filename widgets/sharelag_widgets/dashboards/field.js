// A labelled field with its error below: a text, which may have step buttons, or chips of which several may be on.

import { button, make, ownsKeys } from "../shared/dom.js";
import { change } from "../shared/hearing.js";
import { kept } from "../shared/kept.js";

const TRAITS = ["label", "hint", "error", "disabled", "value", "options", "about", "now", "step", "start"];
let fields = 0;

function build({ model, get, voice }) {
  const id = `sl-field-${(fields += 1)}`;
  const isChips = get("options").length > 0;
  const label = make(isChips ? "span" : "label", { class: "sl-label", id: `${id}-label`, for: isChips ? null : id });
  const error = make("p", { class: "sl-failure", id: `${id}-error`, hidden: true });
  const tell = (value) => change(model, "value", value);
  const { box, paint: paintControl } = isChips ? chips(get, tell, id) : entry(get, tell, model, id);

  function paint() {
    label.textContent = get("label");
    if (error.textContent !== get("error")) voice.say(get("error"));
    error.textContent = get("error");
    error.hidden = !get("error");
    paintControl(error.hidden ? null : error.id);
  }
  return { elements: [label, box, error], paint };
}

/** A text with buttons, or arrow keys, to count up and down. */
function entry(get, tell, model, id) {
  const input = ownsKeys(make("input", { type: "text", id, autocomplete: "off", spellcheck: "false" }));
  let shown = "";
  const leave = () => {
    if (input.value !== shown) tell((shown = input.value));
  };
  const step = (by) => {
    const given = Number.parseInt(get("value").split(/[,;]/).pop(), 10);
    tell(String(Math.max(1, (Number.isNaN(given) ? get("start") : given) + by)));
  };
  const [less, more] = [["−", -1, "one fewer"], ["+", 1, "one more"]].map(([sign, by, words]) =>
    button(sign, () => step(by), { class: "sl-step", data: { words } }),
  );
  // After Enter, Chromium does not always fire change for the next text.
  for (const name of ["change", "focusout"]) input.addEventListener(name, leave);
  input.addEventListener("keydown", (event) => {
    const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Enter") {
      leave();
      model.send({ act: "enter" });
    } else if (by && get("step")) {
      event.preventDefault();
      leave();
      step(by);
    }
  });
  const box = make("div", { class: "sl-entry" }, less, input, more);
  const paint = (wrong) => {
    input.placeholder = get("hint");
    // Only what changed in Python: the user may be typing when an error arrives.
    if (shown !== get("value")) input.value = shown = get("value");
    for (const one of [less, input, more]) one.disabled = get("disabled");
    for (const one of [less, more]) {
      one.hidden = !get("step");
      one.setAttribute("aria-label", `${get("label")}: ${one.dataset.words}`);
    }
    describe(input, wrong);
  };
  return { box, paint };
}

/** Toggle buttons; they are not replaced when they change, so that the focus stays. */
function chips(get, tell, id) {
  const box = make("div", { class: "sl-chips", role: "group", "aria-labelledby": `${id}-label` });
  const made = new Map();
  const toggle = (name) => {
    const had = get("value");
    tell(get("options").filter((one) => (one === name) !== had.includes(one)));
  };
  const paint = (wrong) => {
    const names = get("options");
    if (names.join("\n") !== [...made.keys()].join("\n")) {
      made.clear();
      for (const name of names) made.set(name, button(name, () => toggle(name), { class: "sl-chip" }));
      box.replaceChildren(...made.values());
    }
    for (const [name, chip] of made) {
      chip.textContent = name === get("now") ? `${name} (now)` : name;
      chip.title = get("about")[name] ?? "";
      chip.setAttribute("aria-pressed", String(get("value").includes(name)));
      chip.disabled = get("disabled");
    }
    describe(box, wrong);
  };
  return { box, paint };
}

function describe(element, wrong) {
  if (wrong === null) element.removeAttribute("aria-describedby");
  else element.setAttribute("aria-describedby", wrong);
  if (element.tagName === "INPUT") element.setAttribute("aria-invalid", String(wrong !== null));
}

export default kept("field", TRAITS, build);
