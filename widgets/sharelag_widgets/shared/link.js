// Picks: sent to Python, and directly to other views of the same selection in this page.
//
// Views of one selection hear each other in the browser, so they stay linked while the kernel is busy or gone.
// Only user actions are sent; received picks are never sent again, so there are no loops.

import { make } from "./dom.js";

const SILENCE = 4000;
const bus = () => (globalThis.sharelagSelections ??= new EventTarget());

/**
 * @param model anywidget's model
 * @param {(picked: {keys?: string[], offsets?: number[] | null, moment?: number | null}) => void} hear
 */
export function linked(model, hear) {
  const me = {};
  const note = make("p", { class: "sl-kernel", role: "status", hidden: true });
  let [sent, answered, timer, pause] = [0, 0, 0, 0];

  const heard = ({ detail }) => {
    if (detail.from !== me && detail.link && detail.link === model.get("link")) hear(detail.picked);
  };
  bus().addEventListener("picked", heard);

  const onMessage = (message) => {
    if (!message || message.pong === undefined) return;
    answered = message.pong;
    clearTimeout(timer);
    timer = 0;
    note.hidden = true;
  };
  model.on("msg:custom", onMessage);

  const save = () => {
    try {
      model.save_changes();
    } catch {
      // A page without a kernel: the view works, but nothing receives picks.
    }
  };
  // Check that a kernel answers after user input, at a limited rate.
  const ask = () => {
    if (pause || timer) return;
    pause = setTimeout(() => {
      pause = 0;
      sent += 1;
      timer = setTimeout(() => {
        timer = 0;
        if (answered >= sent) return;
        note.textContent = "Python does not answer: the kernel is busy or gone. This view keeps working; what you pick reaches Python when it answers.";
        note.hidden = false;
      }, SILENCE);
      try {
        model.send({ ping: sent });
      } catch {
        // The note reports it.
      }
    }, 200);
  };
  return {
    note,
    /** Someone changed these traits of the model, and picked this. */
    tell(traits, picked = null) {
      for (const [name, value] of Object.entries(traits)) model.set(name, value);
      save();
      ask();
      if (picked) bus().dispatchEvent(new CustomEvent("picked", { detail: { from: me, link: model.get("link"), picked } }));
    },
    /** A pick in progress: other views show it, Python receives only the final one. */
    show(picked) {
      bus().dispatchEvent(new CustomEvent("picked", { detail: { from: me, link: model.get("link"), picked } }));
    },
    stop() {
      bus().removeEventListener("picked", heard);
      model.off("msg:custom", onMessage);
      clearTimeout(timer);
      clearTimeout(pause);
    },
  };
}
