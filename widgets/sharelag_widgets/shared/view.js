// The lifecycle of a view: its frame, data, theme, and a complete cleanup.

import { unpack } from "./columns.js";
import { announcer, failureOf, make } from "./dom.js";
import { hearing } from "./hearing.js";
import { linked } from "./link.js";
import { watchTheme } from "./theme.js";

/**
 * Build a view and keep it up to date. A failed one is tried again with the next change.
 *
 * @param {{model, el}} context anywidget's
 * @param {string} name the class of its root, after "sl-"
 * @param {(frame) => {elements: Node[], load: (columns) => void, paint: () => void | Promise<void>, hear?: (picked) => void,
 *   stop?: () => void}} build makes the elements once; `load` takes new data, `paint` shows the model
 * @param {string[]} watched traits whose changes repaint the view
 */
export function view({ model, el }, name, build, watched) {
  const root = make("section", { class: `sl sl-${name}` });
  el.append(root);
  const failure = failureOf(root);
  const failed = (error) => {
    failure.tell(error);
    body.hidden = true;
  };
  const voice = announcer();
  let parts = null;
  let [turn, tries, timer, isLoaded] = [0, 0, 0, false];
  const later = eachFrame(() => {
    if (!isLoaded) return;
    // JupyterLab hides everything briefly to change its theme; if shown again within the frame, no event reports the size.
    if (root.clientWidth === 0 && tries++ < 10) {
      timer = setTimeout(later, 100);
      return;
    }
    tries = 0;
    // A failed view is tried again, and needs its room.
    body.hidden = false;
    Promise.resolve(parts.paint()).then(failure.mend, failed);
  }, failed);
  const link = linked(model, (picked) => parts?.hear?.(picked));
  const empty = make("p", { class: "sl-empty", hidden: true });
  const heading = make("h3", { class: "sl-title" });
  const body = make("div", { class: "sl-body" });
  const load = async () => {
    const mine = ++turn;
    try {
      if (!parts) body.append(...(parts = build({ model, root, link, say: voice.say, later, failed })).elements);
      const columns = await unpack(model.get("data"));
      // Newer data may have come while this was unpacked.
      if (mine !== turn) return;
      const [title, note] = [model.get("title"), model.get("note")];
      heading.replaceChildren(make("bdi", {}, title));
      root.setAttribute("aria-label", title);
      empty.textContent = note;
      empty.hidden = !note;
      isLoaded = Object.keys(columns).length > 0;
      body.hidden = !isLoaded;
      if (isLoaded) parts.load(columns);
      else failure.mend();
      root.dataset.loaded = turn;
      later();
    } catch (error) {
      if (mine !== turn) return;
      isLoaded = false;
      failed(error);
    }
  };
  const events = [...watched.map((trait) => [`change:${trait}`, later]), ...["data", "title", "note"].map((trait) => [`change:${trait}`, load])];
  // A failing view shrinks, which must not trigger another try.
  const observer = new ResizeObserver(() => "failed" in root.dataset || later());
  root.append(heading, empty, body, link.note, voice.element);
  for (const [event, act] of events) model.on(event, act);
  const unwatch = watchTheme(root, later);
  observer.observe(root);
  load();
  hearing(model);
  return () => {
    turn += 1;
    for (const [event, act] of events) model.off(event, act);
    for (const stop of [unwatch, link.stop, voice.stop, later.stop, () => observer.disconnect(), () => clearTimeout(timer), () => parts?.stop?.()]) stop();
    root.remove();
  };
}

/** Repaint at most once per frame; errors go to `failed`. */
function eachFrame(paint, failed) {
  let scheduled = 0;
  const later = () => {
    scheduled ||= requestAnimationFrame(() => {
      scheduled = 0;
      try {
        paint();
      } catch (error) {
        failed(error);
      }
    });
  };
  later.stop = () => cancelAnimationFrame(scheduled);
  return later;
}
