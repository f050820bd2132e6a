// The life of a view: its frame, its data, its theme, and an end that leaves nothing behind.

import { unpack } from "./columns.js";
import { announcer, make, tellFailure } from "./dom.js";
import { eachFrame } from "./frames.js";
import { linked } from "./link.js";
import { watchTheme } from "./theme.js";

/**
 * Build a view and keep it up to date.
 *
 * @param {{model, el}} context anywidget's
 * @param {string} name the class of its root, after "sl-"
 * @param {(frame) => {elements: Node[], load: (columns) => void, paint: () => void, hear?: (picked) => void,
 *   stop?: () => void}} build makes the elements once; `load` takes new data, `paint` shows what the model says
 * @param {string[]} watched traits on whose change to paint
 */
export function view({ model, el }, name, build, watched) {
  const root = make("section", { class: `sl sl-${name}` });
  el.append(root);
  const failed = (error) => tellFailure(root, error);
  const voice = announcer();
  let parts = null;
  let [tries, timer] = [0, 0];
  const later = eachFrame(() => {
    if (!parts || !root.dataset.loaded || body.hidden) return;
    // JupyterLab hides all for a moment to change its theme; shown again within the frame, nothing tells that the size is back.
    if (root.clientWidth === 0 && tries < 10) {
      tries += 1;
      timer = setTimeout(later, 100);
      return;
    }
    tries = 0;
    parts.paint();
  }, failed);
  const link = linked(model, (picked) => parts?.hear?.(picked));
  const empty = make("p", { class: "sl-empty", hidden: true });
  const heading = make("h3", { class: "sl-title" });
  const body = make("div", { class: "sl-body" });
  let turn = 0;
  const load = async () => {
    const mine = ++turn;
    try {
      const columns = await unpack(model.get("data"));
      if (mine !== turn) return; // newer data came while this was unpacked
      heading.replaceChildren(make("bdi", {}, model.get("title")));
      root.setAttribute("aria-label", model.get("title"));
      empty.textContent = model.get("note");
      empty.hidden = !model.get("note");
      body.hidden = Object.keys(columns).length === 0;
      if (!body.hidden) parts.load(columns);
      root.dataset.loaded = turn;
      later();
    } catch (error) {
      failed(error);
    }
  };
  const events = [...watched.map((trait) => [`change:${trait}`, later]), ...["data", "title", "note"].map((trait) => [`change:${trait}`, load])];
  let unwatch = () => {};
  const observer = new ResizeObserver(later);
  try {
    parts = build({ model, root, link, say: voice.say, later, failed });
    body.append(...parts.elements);
    root.append(heading, empty, body, link.note, voice.element);
    for (const [event, act] of events) model.on(event, act);
    unwatch = watchTheme(root, later);
    observer.observe(root);
    load();
  } catch (error) {
    failed(error);
  }
  return () => {
    turn += 1;
    for (const [event, act] of events) model.off(event, act);
    for (const stop of [unwatch, link.stop, voice.stop, later.stop, () => observer.disconnect(), () => clearTimeout(timer), () => parts?.stop?.()]) stop();
    root.remove();
  };
}
