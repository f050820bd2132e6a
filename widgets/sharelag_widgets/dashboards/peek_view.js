// One record, read on request; its text stays in this page.

import { button, make } from "../shared/dom.js";
import { kept } from "../shared/kept.js";

function build({ model, get, root, voice }) {
  const ask = button("", () => {
    ask.disabled = true;
    model.send({ peek: true });
  });
  const shown = make("pre", { tabindex: 0, hidden: true, "aria-label": "The record" });
  const failure = make("p", { class: "sl-failure", role: "alert", hidden: true });

  function tell(text, wrong) {
    shown.textContent = text;
    shown.hidden = !text;
    failure.textContent = wrong;
    failure.hidden = !wrong;
  }
  function paint() {
    const about = get("about");
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
  return { elements: [ask, failure, shown], paint, stop: () => model.off("msg:custom", hear) };
}

export default kept("peek", ["about"], build, "Record");
