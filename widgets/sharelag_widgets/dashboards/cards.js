// Causes of lag, a card each: the worst first, with what to do and a command to copy.

import { announcer, make } from "../shared/dom.js";
import { codeButtons } from "../shared/code.js";
import { MARKS } from "../shared/levels.js";
import { kept } from "../shared/kept.js";

const CHANGING = ["group", "state", "cards"];

/** Build it, and keep it up to date; returns what ends it. */
function render({ model, el }) {
  const get = (name) => model.get(name);
  const root = make("section", { class: "sl sl-cards", "aria-label": "Causes" });
  const state = make("p", { class: "sl-state" });
  const list = make("ol", {});
  const voice = announcer();
  root.append(state, list, voice.element);
  const bdi = (text, attributes = {}) => make("bdi", attributes, text);

  function card(one) {
    const { severity, cause, where, summary, evidence, advice, command } = one;
    const below = make("div");
    const more = evidence ? [" ", bdi(`(${evidence})`, { class: "sl-soft" })] : [];
    return make("li", { data: { severity, cause } },
      make("p", { class: "sl-cause" }, make("strong", { class: "sl-level" }, `${MARKS[severity] ?? ""} ${severity}:`), " ", make("strong", {}, cause.replaceAll("_", " ")), " ", bdi(where, { class: "sl-soft" })),
      make("p", {}, bdi(summary), ...more),
      make("p", { class: "sl-advice" }, "→ ", bdi(advice)),
      make("div", { class: "sl-bar" }, make("code", { class: "sl-command", tabindex: 0, title: command }, command), ...codeButtons(root, voice, below, [["Copy the command", command]], false)),
      below);
  }
  function paint() {
    state.replaceChildren(make("strong", {}, bdi(get("group"))), " ", bdi(get("state")));
    list.replaceChildren(...get("cards").map(card));
    list.hidden = !get("cards").length;
  }
  return kept({ model, el }, root, CHANGING, paint, voice.stop);
}

export default { render };
