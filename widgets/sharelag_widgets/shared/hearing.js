// Messages from Python reach a view even if its module loads late; and changes by the user reach Python before the next click.
//
// anywidget gives a module two seconds (a busy page takes longer), and lets each message wait for a promise that fails after that, for good.
// So a late view shows the state that its model began with, and hears nothing more. Its messages have to go past that promise, and what was lost
// meanwhile has to be asked for.

const EMPTY = { content: { data: { method: "" } } };

/** Ask for the state of a model that does not take messages, and make it take them. Nothing waits for it, so it never rejects. */
export async function hearing(model) {
  try {
    const id = model.get("own_id");
    // A saved page may have no models, or no kernel: nothing answers there.
    const own = id && (await model.widget_manager?.get_model?.(id).catch(() => null));
    if (!own?.comm || (await takes(own))) return;
    const { _handle_comm_msg: handle } = Object.getPrototypeOf(own.constructor.prototype);
    own._handle_comm_msg = handle;
    own.comm.on_msg(handle.bind(own));
    own.comm.send({ method: "request_state" }, {});
  } catch (error) {
    // The kernel or the connection ended meanwhile: the view continues with its data.
    console.warn("sharelag: a view cannot ask Python for what it missed.", error);
  }
}

/**
 * Change a trait so that Python has the change before the next message. ipywidgets holds a change back while one before it is on its way, but
 * no message: a click on Run would overtake it.
 */
export function change(model, name, value) {
  model.set(name, value);
  model.save_changes();
  model.send({ changed: { [name]: value } });
}

function takes(own) {
  return own._handle_comm_msg(EMPTY).then(() => true, () => false);
}
