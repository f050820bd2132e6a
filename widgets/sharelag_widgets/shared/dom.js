// Elements of a view: texts are never markup, keys stay here, changes and failures are announced.

/** An element. `on...` are listeners, `data` and `style` are objects, everything else is an attribute. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if ((value ?? false) === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Elements that take keys. JupyterLab takes arrows in the capture phase, unless this stands on the very
 * element that has the focus.
 */
export function ownsKeys(...elements) {
  addEventListener("keydown", letSave, true); // once, however often
  for (const element of elements) element.setAttribute("data-lm-suppress-shortcuts", "true");
  return elements[0];
}

// But JupyterLab saves from anywhere: it hears that key after the window does.
function letSave({ target, key, ctrlKey, metaKey }) {
  if (key !== "s" || !(ctrlKey || metaKey) || !target.dataset.lmSuppressShortcuts) return;
  delete target.dataset.lmSuppressShortcuts;
  setTimeout(ownsKeys, 0, target);
}

/** Handle a key and hide it from the page; `actOf` returns its action, or nothing. */
export function takesKeys(element, actOf) {
  element.addEventListener("keydown", (event) => {
    const act = !event.altKey && actOf(event);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act(event);
  });
}

/** A button. */
export function button(words, act, attributes = {}) {
  return ownsKeys(make("button", { type: "button", onclick: act, ...attributes }, words));
}

/** A name from outside, isolated: it may run from right to left. */
export function named(text, attributes = {}) {
  return make("bdi", { class: "sl-name", title: text, ...attributes }, text);
}

/** Announces only the last of many successive texts to a screen reader. */
export function announcer() {
  const element = make("div", { class: "sl-unseen", role: "status", "aria-live": "polite", data: { told: 0 } });
  let timer = 0;
  const say = (text) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (element.textContent === text) return;
      element.textContent = text;
      element.dataset.told = Number(element.dataset.told) + 1;
    }, 400);
  };
  return { element, say, stop: () => clearTimeout(timer) };
}

/** The content of a failed view until it paints again; its advice fits every failure. */
export function failureOf(root) {
  const text = make("p", { class: "sl-failure", role: "alert" });
  const element = make("div", {}, text, make("p", {}, "Run the cell again. The data is still in Python: the same object's .rows shows it."));
  return {
    tell(error) {
      const words = String(error?.message ?? error);
      text.textContent = `This view cannot be drawn: ${words}`;
      root.dataset.failed = words;
      if (!element.parentNode) root.append(element);
    },
    mend() {
      element.remove();
      delete root.dataset.failed;
    },
  };
}
