// The what-if of an editor: run it, see how far it is, cancel it, read what it found.

import { button, make } from "./shared/dom.js";
import { number } from "./shared/format.js";
import { resultOf } from "./editor_result.js";

/** The elements, and what is going on. `edited` gives the edits on the screen. */
export function runPanel({ model, link, say, later }) {
  // What was asked of Python that has not answered yet, and whether people gave up on a run that it still reports.
  let [pending, given] = ["", false];
  const get = (name) => model.get(name);
  const run = button("Run the what-if", () => ask("run"), { class: "sl-go" });
  const cancel = button("Cancel", () => giveUp());
  const meter = make("progress", { "aria-label": "Progress of the what-if" });
  const status = make("span", { class: "sl-status" });
  const failure = make("p", { class: "sl-failure", role: "alert", hidden: true });
  const found = make("div", { class: "sl-found", role: "region", "aria-label": "Difference" });
  const element = make("div", { class: "sl-run" }, make("div", { class: "sl-bar" }, run, cancel, meter, status), found);

  const busy = () => pending !== "" || (get("state") === "running" && !given);
  // The traits may come later than the message, so it says what is on the screen.
  function ask(what, value = true) {
    [pending, given] = [what, false];
    reach({ [what]: value, edits: get("edits"), at: get("at") });
  }
  function giveUp() {
    [pending, given] = ["", true];
    reach({ cancel: true });
  }
  function reach(message) {
    try {
      model.send(message);
    } catch {
      // The view's note says that nobody answers.
    }
    link.tell({});
    later();
  }
  const answered = () => ([pending, given] = ["", given && get("state") === "running"]);
  const answers = ["state", "edits", "failure", "progress"].map((trait) => `change:${trait}`);
  for (const event of answers) model.on(event, answered);

  const late = () => get("result").rows && get("result").of !== (get("edits")[get("at") - 1]?.id ?? "");
  function words() {
    const before = get("result").rows ? " What stands below is the result before." : " There is no result yet.";
    const [done, total] = get("progress");
    if (pending) return pending === "run" ? "Waiting for Python\u2026" : "Loading\u2026";
    if (get("state") === "running" && given) return `Cancelled: Python stops at its next step.${before}`;
    if (get("state") === "running") return total ? `Running: ${number(done)} of ${number(total)}` : "Running\u2026";
    if (get("state") === "cancelled") return `Cancelled.${before}`;
    if (get("state") === "failed") return `Failed.${before}`;
    if (late()) return "The assignment has changed since: what stands below is of another one. Run it again.";
    return get("state") === "done" ? "Done." : "Not run yet.";
  }
  function write() {
    element.hidden = !get("runs");
    const locked = busy();
    run.disabled = locked;
    cancel.hidden = !locked;
    meter.hidden = !locked || pending === "load";
    const [done, total] = get("progress");
    if (total && pending === "") Object.assign(meter, { max: total, value: done });
    else meter.removeAttribute("value");
    const text = words();
    if (status.textContent !== text) {
      // Steps are for the eye; what became of it is said.
      if (status.textContent && !text.startsWith("Running: ")) say(text);
      status.textContent = text;
    }
    failure.hidden = !get("failure");
    if (failure.textContent !== get("failure")) failure.textContent = get("failure");
    const mark = JSON.stringify(get("result"));
    found.hidden = !get("result").rows;
    found.classList.toggle("sl-late", Boolean(late()) || locked);
    if (found.dataset.mark === mark) return;
    found.dataset.mark = mark;
    found.replaceChildren(...(get("result").rows ? resultOf(get("result")) : []));
  }
  return { element, failure, busy, ask, write, stop: () => answers.forEach((event) => model.off(event, answered)) };
}
