// A level and a sentence with advice, at the top; a menu has what can be copied.

import { codeButtons } from "../shared/code.js";
import { button, make } from "../shared/dom.js";
import { MARKS } from "../shared/levels.js";
import { kept } from "../shared/kept.js";
import { menu } from "../shared/menu.js";

const CHANGING = ["level", "sentence", "actions", "copies", "busy"];

function build({ model, get, root, voice }) {
  const badge = make("strong", { class: "sl-level" });
  const sentence = make("bdi", { class: "sl-sentence" });
  const bar = make("div", { class: "sl-bar" });
  const below = make("div");
  let buttons = "";

  function paint() {
    const [level, said] = [get("level"), get("sentence")];
    if (root.dataset.level !== level || sentence.textContent !== said) voice.say(`${level} ${said}`);
    root.dataset.level = level;
    badge.textContent = level ? `${MARKS[level] ?? ""} ${level}` : "";
    badge.hidden = !level;
    sentence.textContent = said;
    const wanted = JSON.stringify(["level", "actions", "copies", "busy"].map(get));
    if (wanted !== buttons) renew(wanted);
  }
  function renew(wanted) {
    const had = [...bar.querySelectorAll("button")].indexOf(document.activeElement);
    const off = Boolean(get("busy"));
    const acts = get("actions").map(([name, words, why]) => button(words, () => model.send({ act: name }), { disabled: off || Boolean(why), title: why }));
    const reasons = get("actions").flatMap(([, , why]) => (why ? [make("span", { class: "sl-soft" }, why)] : []));
    if (["critical", "warning"].includes(get("level"))) acts[0]?.classList.add("sl-primary");
    const copies = codeButtons(root, voice, below, get("copies"), true);
    bar.replaceChildren(...(off ? [make("span", { class: "sl-soft", role: "status" }, get("busy"))] : []), ...reasons, ...acts, ...(copies.length ? [menu("More", ...copies)] : []));
    buttons = wanted;
    if (had >= 0) bar.querySelectorAll("button")[had]?.focus();
  }
  return { elements: [make("p", { class: "sl-said" }, badge, " ", sentence), bar, below], paint };
}

export default kept("verdict", CHANGING, build, "Verdict");
