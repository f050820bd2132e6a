// plotly.js, once a page: from Python when the first figure asks for it, never from the net.

const WAIT = 60_000; // a kernel that runs other cells answers when they are done

/** plotly.js, as soon as it is here. */
export function plotly(model) {
  if (globalThis.Plotly) return Promise.resolve(globalThis.Plotly);
  globalThis.sharelagPlotly ??= fetched(model).catch((error) => {
    globalThis.sharelagPlotly = undefined; // the next figure asks again
    throw error;
  });
  return globalThis.sharelagPlotly;
}

function fetched(model) {
  return new Promise((done, failed) => {
    const timer = setTimeout(() => {
      model.off("msg:custom", take);
      failed(new Error("Python does not answer, and plotly.js has to come from there. Is the kernel running?"));
    }, WAIT);
    const take = async (message, buffers) => {
      if (!message?.plotly) return;
      model.off("msg:custom", take);
      clearTimeout(timer);
      try {
        const packed = new Blob([buffers[0]]).stream().pipeThrough(new DecompressionStream("gzip"));
        const module = { exports: {} };
        // As CommonJS, whatever module loader the page has.
        new Function("module", "exports", "define", await new Response(packed).text())(module, module.exports, undefined);
        done((globalThis.Plotly = module.exports));
      } catch (error) {
        failed(error);
      }
    };
    model.on("msg:custom", take);
    model.send({ want: "plotly" });
  });
}
