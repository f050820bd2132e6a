// Copies texts to the clipboard, or code into a new cell if the page lets a view add one.

import { copied } from "./copied.js";
import { button } from "./dom.js";

/**
 * Buttons that copy texts; where JupyterLab exposes its app to the page (as with `make lab`), code also goes into a new cell.
 *
 * @param {HTMLElement} root whose `data-copied` says how long the last text was
 * @param {{say: (text: string) => void}} voice
 * @param {HTMLElement} below where a text field appears if the browser does not allow copying
 * @param {string[][]} copies pairs of the words on a button and the text
 * @param {boolean} isCode the words begin with "Copy"; code has another button that says where it goes
 */
export function codeButtons(root, voice, below, copies, isCode) {
  return copies.flatMap(([words, text]) => [
    button(words, ({ currentTarget }) => copy(root, voice, below, words, words.includes("Python") ? runnable(root, text) : text, currentTarget)),
    ...(isCode && words.includes("Python") && takesCells() ? [button("Python into a new cell", () => intoCell(root, voice, runnable(root, text)))] : []),
  ]);
}

/** Python, after the line that sets `bench` to the dashboard's workbench by its name in the notebook. */
const runnable = (root, text) => (root.closest(".sharelag-dashboard")?.querySelector(".sl-level-2").dataset.names ?? "") + text;

const TOLD = 2000;
async function copy(root, voice, below, words, text, asked) {
  if (!(await copied(root, text, words, below))) return;
  below.replaceChildren();
  voice.say(`${words}: copied`);
  asked.textContent = "\u2713 Copied";
  setTimeout(() => (asked.textContent = words), TOLD);
}

const commands = () => globalThis.jupyterapp?.commands;
/** Whether there is a notebook for a new cell: Voila has commands, too, but not this one. */
const takesCells = () => Boolean(commands()?.hasCommand("notebook:insert-cell-below"));

/** Below the cell of the view; JupyterLab offers views no other way. */
async function intoCell(root, voice, text) {
  root.closest(".jp-Cell")?.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  await commands().execute("notebook:insert-cell-below");
  await commands().execute("notebook:replace-selection", { text });
  voice.say("The code is in a new cell.");
}
