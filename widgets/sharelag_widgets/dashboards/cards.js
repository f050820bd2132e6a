// Causes of lag as cards, worst first, each with advice, what-ifs, and a command to copy.

import { button, make } from "../shared/dom.js";
import { codeButtons } from "../shared/code.js";
import { MARKS } from "../shared/levels.js";
import { kept } from "../shared/kept.js";
import { menu } from "../shared/menu.js";

const CHANGING = ["group", "state", "cards"];

function build({ model, get, root, voice }) {
  const state = make("p", { class: "sl-state" });
  const list = make("ol", {});
  const bdi = (text, attributes = {}) => make("bdi", attributes, text);

  function card(one) {
    const { severity, cause, where, summary, evidence, advice, command, fix, why } = one;
    const below = make("div");
    const more = evidence ? [" ", bdi(`(${evidence})`, { class: "sl-soft" })] : [];
    const line = make("code", { class: "sl-command", tabindex: 0 }, command);
    const first = fix ? [button("Simulate the fix", () => model.send({ fix }), { class: "sl-primary", disabled: Boolean(why), title: why })] : [];
    return make("li", { data: { severity, cause } },
      make("div", { class: "sl-bar" },
        make("p", { class: "sl-cause" }, make("strong", { class: "sl-level" }, `${MARKS[severity] ?? ""} ${severity}:`), " ", make("strong", {}, cause.replaceAll("_", " ")), " ", bdi(where, { class: "sl-soft" })),
        ...(why ? [make("span", { class: "sl-soft" }, why)] : []), ...first,
        menu("More on this cause", line, ...codeButtons(root, voice, below, [["Copy the command", command]], false))),
      make("p", {}, bdi(summary), ...more),
      make("p", { class: "sl-advice" }, "\u2192 ", bdi(advice)),
      below);
  }
  function paint() {
    state.replaceChildren(make("strong", {}, bdi(get("group"))), " ", bdi(get("state")));
    list.replaceChildren(...get("cards").map(card));
    list.hidden = !get("cards").length;
  }
  return { elements: [state, list], paint };
}

export default kept("cards", CHANGING, build, "Causes");
