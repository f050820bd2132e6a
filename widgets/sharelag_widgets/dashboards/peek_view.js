// One record, read when somebody asks for it; its text stays in this page.

import { announcer, button, make } from "../shared/dom.js";
import { kept } from "../shared/kept.js";

/** Build it, and keep it up to date; returns what ends it. */
function render({ model, el }) {
  const root = make("section", { class: "sl sl-peek", "aria-label": "Record" });
  const ask = button("", () => {
    ask.disabled = true;
    model.send({ peek: true });
  });
  const shown = make("pre", { tabindex: 0, hidden: true, "aria-label": "The record" });
  const failure = make("p", { class: "sl-failure", role: "alert", hidden: true });
  const voice = announcer();
  root.append(ask, failure, shown, voice.element);

  function tell(text, wrong) {
    shown.textContent = text;
    shown.hidden = !text;
    failure.textContent = wrong;
    failure.hidden = !wrong;
  }
  function paint() {
    const about = model.get("about");
    root.hidden = !about;
    ask.textContent = `Show the record at ${about}`;
    ask.disabled = false;
    tell("", "");
  }
  const hear = (message) => {
    if (!message?.peeked) return;
    ask.disabled = false;
    tell(message.peeked.text ?? "", message.peeked.failure ?? "");
    voice.say(message.peeked.text ? "The record is shown." : "");
  };
  model.on("msg:custom", hear);
  return kept({ model, el }, root, ["about"], paint, voice.stop, () => model.off("msg:custom", hear));
}

export default { render };
