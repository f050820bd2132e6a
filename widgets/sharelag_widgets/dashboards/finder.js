// A choice of one among many by typing: the field shows the choice, and lists all options on focus.

import { make, ownsKeys } from "../shared/dom.js";
import { change } from "../shared/hearing.js";
import { kept } from "../shared/kept.js";

const CHANGING = ["label", "labels", "index", "disabled"];
let finders = 0;

function build({ model, get, voice }) {
  const id = `sl-finder-${(finders += 1)}`;
  const words = make("label", { for: id });
  const input = ownsKeys(make("input", { id, type: "text", list: `${id}-list`, autocomplete: "off", spellcheck: "false", size: 18 }));
  const list = make("datalist", { id: `${id}-list` });
  const chosen = () => get("labels")[get("index")] ?? "";

  function paint() {
    words.textContent = get("label");
    list.replaceChildren(...get("labels").map((value) => make("option", { value })));
    input.placeholder = chosen() || "none";
    input.disabled = get("disabled");
    if (document.activeElement !== input) input.value = chosen();
  }
  function choose(index) {
    if (index >= 0 && index !== get("index")) change(model, "index", index);
  }
  /** The option of that name, or the first that contains the typed text. */
  function found() {
    const [typed, labels] = [input.value.trim().toLowerCase(), get("labels").map((label) => label.toLowerCase())];
    if (!typed) return -1;
    const exact = labels.indexOf(typed);
    return exact >= 0 ? exact : labels.findIndex((label) => label.includes(typed));
  }
  // A browser lists only options that contain the text: an empty field offers all.
  input.addEventListener("focus", () => (input.value = ""));
  input.addEventListener("blur", () => (input.value = chosen()));
  // A pick from the list takes effect at once; typed text waits for Enter.
  input.addEventListener("input", (event) => {
    if (event instanceof InputEvent && event.inputType.startsWith("insertText")) return;
    const index = get("labels").indexOf(input.value);
    if (index >= 0) choose(index);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      input.blur();
    }
    if (event.key !== "Enter") return;
    event.preventDefault();
    const index = found();
    if (index < 0 && input.value) return voice.say(`Nothing is called ${input.value}`);
    choose(index);
    input.value = chosen();
    input.select();
  });
  return { elements: [words, input, list], paint };
}

export default kept("finder", CHANGING, build);
