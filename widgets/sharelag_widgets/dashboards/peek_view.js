// One record, read when somebody asks for it; its text stays in this page.

import { announcer, button, failureOf, make } from "../shared/dom.js";
import { watchTheme } from "../shared/theme.js";

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
  el.append(root);
  const trouble = failureOf(root);

  function tell(text, wrong) {
    shown.textContent = text;
    shown.hidden = !text;
    failure.textContent = wrong;
    failure.hidden = !wrong;
  }
  function paint() {
    try {
      const about = model.get("about");
      root.hidden = !about;
      ask.textContent = `Show the record at ${about}`;
      ask.disabled = false;
      tell("", "");
      trouble.mend();
      root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
    } catch (error) {
      trouble.tell(error);
    }
  }
  const hear = (message) => {
    if (!message?.peeked) return;
    ask.disabled = false;
    tell(message.peeked.text ?? "", message.peeked.failure ?? "");
    voice.say(message.peeked.text ? "The record is shown." : "");
  };
  const stopTheme = watchTheme(root, () => {});
  model.on("change:about", paint);
  model.on("msg:custom", hear);
  paint();
  return () => {
    model.off("change:about", paint);
    model.off("msg:custom", hear);
    stopTheme();
    voice.stop();
    root.remove();
  };
}

export default { render };
