// A page that shows views as Jupyter does: the models of `window.sent`, and Python behind `window.toPython`, if it is there.

const unpacked = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const packed = (view) => {
  let text = "";
  for (const byte of new Uint8Array(view.buffer, view.byteOffset, view.byteLength)) text += String.fromCharCode(byte);
  return btoa(text);
};

/** What anywidget hands to `render`. */
class Model {
  constructor({ id, state, buffers }) {
    Object.assign(this, { id, state: { ...state }, listeners: {}, dirty: new Set() });
    for (const [name, text] of Object.entries(buffers)) this.state[name] = unpacked(text);
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    if (Object.is(this.state[name], value) || JSON.stringify(this.state[name]) === JSON.stringify(value) && !(value instanceof DataView)) return;
    this.state[name] = value;
    this.dirty.add(name);
    this.emit(`change:${name}`, value);
  }
  on(event, listener) {
    (this.listeners[event] ??= new Set()).add(listener);
  }
  off(event, listener) {
    this.listeners[event]?.delete(listener);
  }
  emit(event, ...values) {
    for (const listener of [...(this.listeners[event] ?? [])]) listener(...values);
  }
  async save_changes() {
    const [state, buffers] = [{}, {}];
    for (const name of this.dirty) {
      if (this.state[name] instanceof DataView) buffers[name] = packed(this.state[name]);
      else state[name] = this.state[name];
    }
    this.dirty.clear();
    await reach({ id: this.id, state, buffers });
  }
  async send(custom) {
    await reach({ id: this.id, custom });
  }
}

/** Tell Python, and take what it answers; nothing at all once `window.kernelGone` is set. */
async function reach(message) {
  if (!window.toPython || window.kernelGone) return;
  take(await window.toPython(message));
}

/** Messages of Python's views. */
function take(answers) {
  for (const { id, state, buffers, custom } of answers) {
    const model = window.models[id];
    if (custom) model.emit("msg:custom", custom, Object.values(buffers).map(unpacked));
    else {
      for (const [name, value] of Object.entries(state)) model.set(name, value);
      for (const [name, text] of Object.entries(buffers)) model.set(name, unpacked(text));
      model.dirty.clear();
    }
  }
}

window.take = take;
window.models = {};
window.stops = [];
window.show = async ({ id, esm }, el) => {
  const url = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const module = await import(url);
  window.stops.push(await module.default.render({ model: window.models[id], el }));
};
window.ready = (async () => {
  for (const sent of window.sent) {
    const style = document.createElement("style");
    style.textContent = sent.css;
    document.head.append(style);
    const el = document.createElement("div");
    document.querySelector("main").append(el);
    window.models[sent.id] = new Model(sent);
    await window.show(sent, el);
  }
})();
