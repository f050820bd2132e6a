// What stands above a dashboard and above each of its parts: as of when and how old that is, the definition, what is not known.

import { announcer, button, make, tellFailure } from "../shared/dom.js";
import { counted, duration, local, utc } from "../shared/format.js";
import { watchTheme } from "../shared/theme.js";

const WATCHED = ["title", "level", "as_of", "units", "source", "help", "finding", "facts", "unknown", "notes", "failure", "busy", "live", "every", "paused", "stale_after"];
const TICK = 1000;

/** Build it, and keep it up to date; returns what ends it. */
function render({ model, el }) {
  const get = (name) => model.get(name);
  const main = get("level") < 3;
  const root = make("section", { class: `sl sl-head sl-level-${get("level")}` });
  el.append(root);
  const voice = announcer();
  const heading = make(`h${get("level")}`, { class: "sl-title" });
  const when = make("p", { class: "sl-when" });
  const badge = make("strong", { class: "sl-badge", hidden: true });
  const refresh = button("Refresh", () => ask(), { class: "sl-refresh" });
  const pause = button("Pause", () => {
    model.set("paused", !get("paused"));
    model.save_changes();
    voice.say(get("paused") ? "Refreshing is paused." : "Refreshing goes on.");
  }, { class: "sl-pause" });
  const panel = make("div", { class: "sl-help", hidden: true, role: "region" });
  const ask4help = button("?", () => {
    panel.hidden = !panel.hidden;
    ask4help.setAttribute("aria-expanded", String(!panel.hidden));
  }, { class: "sl-ask", "aria-expanded": "false" });
  panel.addEventListener("keydown", escape);
  ask4help.addEventListener("keydown", escape);
  const failure = make("p", { class: "sl-failure", role: "alert", hidden: true });
  const facts = make("div", { class: "sl-facts" });
  const top = make("div", { class: "sl-top" }, heading, badge, ...(main ? [] : [when]), make("span", { class: "sl-push" }), refresh, pause, ask4help);
  root.append(top, ...(main ? [when] : []), panel, failure, facts, voice.element);

  function escape(event) {
    if (event.key !== "Escape" || panel.hidden) return;
    event.stopPropagation();
    ask4help.click();
    ask4help.focus();
  }
  let asked = Date.now();
  function ask() {
    asked = Date.now();
    model.send({ refresh: true });
  }
  function tick() {
    if (!root.isConnected) return;
    const due = get("live") && get("every") > 0 && !get("paused") && !get("busy") && !document.hidden;
    if (main && due && Date.now() - asked >= get("every") * 1000) ask();
    clock();
  }
  function clock() {
    const at = get("as_of");
    const age = at === null ? null : Math.max(0, Date.now() - at);
    const here = at === null ? "" : local(at);
    const old = age === null ? "" : age < 1000 ? ", just now" : `, ${duration(age)} ago`;
    const parts = at === null ? (main ? ["As of a time that is not known"] : []) : [`As of ${utc(at)}${here ? ` (${here})` : ""}${main ? old : ""}`];
    if (get("units")) parts.push(get("units"));
    if (at !== null && !get("unknown").length) parts.push("nothing is unknown");
    if (main && get("source")) parts.push(get("source"));
    if (main && get("live") && get("every") > 0) parts.push(get("paused") ? "refreshing is paused" : `refreshes every ${duration(get("every") * 1000)}`);
    when.hidden = !parts.length;
    when.replaceChildren(...parts.map((text) => make("bdi", {}, text)));
    const stale = get("live") && age !== null && age > get("stale_after") * 1000;
    badge.hidden = !(main && (stale || !get("live") || get("busy")));
    badge.textContent = get("busy") ? "Reading …" : stale ? `Stale: ${duration(age)} old` : "Recorded";
    badge.classList.toggle("sl-stale", stale && !get("busy"));
    root.dataset.stale = String(stale);
  }
  function paint() {
    try {
      heading.replaceChildren(make("bdi", {}, get("title")));
      root.setAttribute("aria-label", get("title"));
      root.setAttribute("aria-busy", String(get("busy")));
      refresh.hidden = pause.hidden = !main;
      refresh.disabled = get("busy");
      pause.hidden = !main || !get("live") || !(get("every") > 0);
      pause.textContent = get("paused") ? "Go on" : "Pause";
      pause.setAttribute("aria-pressed", String(get("paused")));
      ask4help.setAttribute("aria-label", `What does ${get("title")} show?`);
      panel.setAttribute("aria-label", `Help: ${get("title")}`);
      panel.replaceChildren(make("dl", {}, ...get("help").flatMap(([term, meaning]) => [make("dt", {}, make("bdi", {}, term)), make("dd", {}, meaning)])));
      ask4help.hidden = !get("help").length;
      if (failure.textContent !== get("failure")) failure.textContent = get("failure");
      failure.hidden = !get("failure");
      const unknown = get("unknown").map((text) => make("li", {}, make("bdi", {}, text)));
      const one = get("unknown").length === 1 ? make("p", { class: "sl-unknown" }, "Not known: ", make("bdi", {}, get("unknown")[0])) : null;
      const list = one ?? (unknown.length ? make("details", { class: "sl-unknown", open: main }, make("summary", {}, `Not known: ${counted(unknown.length, "thing")}`), make("ul", {}, ...unknown)) : null);
      const finding = get("finding") ? [make("p", { class: "sl-finding" }, make("bdi", {}, get("finding")))] : [];
      const read = get("facts").length ? [make("p", { class: "sl-soft" }, ...get("facts").flatMap((text) => [make("bdi", {}, text), " "]))] : [];
      facts.replaceChildren(...finding, ...read, ...get("notes").map((text) => make("p", {}, make("bdi", {}, text))), ...(list ? [list] : []));
      clock();
      root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
    } catch (error) {
      tellFailure(root, error);
    }
  }
  const themed = () => {
    const theme = root.dataset.theme === "dark" ? "dark" : "light";
    if (!main || get("theme") === theme) return;
    model.set("theme", theme);
    model.save_changes();
  };
  const stopTheme = watchTheme(root, themed);
  themed();
  const events = WATCHED.map((name) => [`change:${name}`, paint]);
  for (const [event, act] of events) model.on(event, act);
  const timer = setInterval(tick, TICK);
  paint();
  return () => {
    clearInterval(timer);
    for (const [event, act] of events) model.off(event, act);
    stopTheme();
    voice.stop();
    root.remove();
  };
}

export default { render };
