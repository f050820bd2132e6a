// plotly.js, loaded once per page from Python when the first figure needs it, never from the network.
//
// A kernel that runs other cells answers when they are done, which can take hours, and one that ended never does. So
// nobody gives up: each waiting figure knocks now and then with a message that costs nothing, and the first to be
// answered asks for the library, for all figures of the page.

const [CALM, LONG] = [4000, 60_000]; // until the view reports a busy kernel, or possibly none
const [AGAIN, SELDOM] = [5000, 60_000]; // between two knocks, the first and the longest

// Knocks are numbered in the page, like the last request: a request before a knock is answered before it.
const page = () => (globalThis.sharelagKnocks ??= Object.assign(new EventTarget(), { knocks: 0, asked: 0, reading: false }));

/**
 * Wait for plotly.js, which is not here yet (`globalThis.Plotly`).
 *
 * @param model anywidget's
 * @param {{here: (library) => void, told: (how: "" | "busy" | "silent" | "gone") => void, failed: (error) => void}} then
 *   `here` or `failed` comes once and ends it; `told` says how it looks meanwhile
 * @returns {() => void} stops waiting
 */
export function awaitPlotly(model, { here, told, failed }) {
  const shared = page();
  let [timer, pause, patience, isGone, hasAsked] = [0, AGAIN, "", false, false];
  const send = (message) => {
    try {
      model.send(message);
      isGone = false;
    } catch {
      isGone = true; // the kernel of this figure ended; another one of this page may have it
    }
    told(isGone ? "gone" : patience);
  };
  const knock = () => {
    clearTimeout(timer);
    timer = setTimeout(knock, pause);
    pause = Math.min(2 * pause, SELDOM);
    shared.knocks += 1;
    send({ ping: -shared.knocks }); // below 0: those that tell whether Python answers are above
  };
  const take = (message, buffers) => {
    if (message?.plotly) read(shared, buffers[0]);
    else if (message?.pong < 0 && !shared.reading && shared.asked < -message.pong) {
      shared.asked = shared.knocks += 1;
      hasAsked = true;
      send({ want: "plotly" });
    }
  };
  const patient = [[CALM, "busy"], [LONG, "silent"]].map(([after, how]) => setTimeout(() => {
    patience = how;
    told(isGone ? "gone" : how);
  }, after));
  const stop = () => {
    for (const one of [timer, ...patient]) clearTimeout(one);
    for (const [event, act] of pageEvents) shared.removeEventListener(event, act);
    for (const [event, act] of modelEvents) model.off(event, act);
    if (!hasAsked || globalThis.Plotly || shared.reading) return;
    shared.asked = 0; // nobody receives the answer any more
    shared.dispatchEvent(new Event("again"));
  };
  const end = (act) => ({ detail }) => {
    stop();
    act(detail);
  };
  const pageEvents = [["here", end(here)], ["failed", end(failed)], ["again", knock]];
  const modelEvents = [["msg:custom", take], ["comm_live_update", knock]];
  for (const [event, act] of pageEvents) shared.addEventListener(event, act);
  for (const [event, act] of modelEvents) model.on(event, act);
  knock();
  return stop;
}

async function read(shared, packed) {
  if (shared.reading || globalThis.Plotly) return;
  shared.reading = true;
  const tell = (name, detail) => {
    shared.reading = false;
    shared.dispatchEvent(new CustomEvent(name, { detail }));
  };
  try {
    const text = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    const module = { exports: {} };
    // As CommonJS, whatever module loader the page has.
    new Function("module", "exports", "define", text)(module, module.exports, undefined);
    globalThis.Plotly = module.exports;
  } catch (error) {
    tell("failed", error);
    return;
  }
  tell("here", globalThis.Plotly);
}
