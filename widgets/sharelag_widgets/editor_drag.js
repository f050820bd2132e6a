// Clicks on partitions and members, and dragging partitions from member to member.

import { make } from "./shared/dom.js";
import { isolated } from "./shared/format.js";

const SLACK = 5; // pixels that a click may move

/**
 * Watch a list for clicks and drags. A line may be repainted between press and release, so what was pressed counts.
 *
 * @param {HTMLElement} list lines with data-group, cells with data-position, chips among them
 * @param {{handful, nameOf, busy, clicked, dropped, later, height}} ask `handful(group, row)` are the dragged rows, `nameOf(group)`
 *   the member of the line, `height` that of a line
 */
export function draggable(list, { handful, nameOf, busy, clicked, dropped, later, height }) {
  let [drag, press] = [null, null];
  const ghost = make("div", { class: "sl-ghost", "aria-hidden": "true", hidden: true });
  const end = () => {
    drag = press = null;
    later();
  };
  const cellOf = (element) => {
    const cell = element.closest("[data-position]");
    return cell && { group: groupOf(cell), position: Number(cell.dataset.position), removes: element.closest("[data-remove]:enabled") !== null };
  };
  const groupOf = (element) => Number(element.closest("[data-group]").dataset.group);
  list.addEventListener("pointerdown", (event) => {
    press = event.button === 0 ? cellOf(event.target) : null;
    const row = event.target.closest(".sl-chip")?.dataset.row;
    drag = press && row !== undefined && !busy() ? { ...handful(press.group, Number(row)), at: [event.clientX, event.clientY], target: null, moving: false } : null;
  });
  list.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = [event.clientX, event.clientY];
    if (!drag.moving && Math.hypot(x - drag.at[0], y - drag.at[1]) < SLACK) return;
    if (!drag.moving) {
      drag.moving = true;
      getSelection()?.removeAllRanges();
      list.setPointerCapture(event.pointerId);
    }
    const { top, bottom } = list.getBoundingClientRect();
    drag.scroll = y < top + 24 && y > top - 40 ? -1 : y > bottom - 24 && y < bottom + 40 ? 1 : 0;
    const under = document.elementFromPoint(x, y)?.closest("[data-group]");
    Object.assign(drag, { at: [x, y], too: event.ctrlKey || event.metaKey, target: list.contains(under) ? nameOf(groupOf(under)) : null });
    later();
  });
  list.addEventListener("pointerup", (event) => {
    const [done, pressed] = [drag, press];
    end();
    if (done?.moving) dropped(done, done.target, done.too);
    else if (pressed) clicked(pressed, event);
  });
  // A click without a pointer, by a screen reader.
  list.addEventListener("click", (event) => {
    const cell = event.detail === 0 ? cellOf(event.target) : null;
    if (cell) clicked(cell, event);
  });
  list.addEventListener("pointercancel", end);
  const scrolling = setInterval(() => drag?.moving && drag.scroll && (list.scrollTop += drag.scroll * height), 60);
  return {
    ghost,
    end,
    stop: () => clearInterval(scrolling),
    /** The current drag, or null. */
    get now() {
      return drag?.moving ? drag : null;
    },
    /** Show at the pointer what a drop would do. */
    write(root, what) {
      ghost.hidden = !drag?.moving;
      if (ghost.hidden) return;
      const { from, target, too, at: [x, y] } = drag;
      const where = target === from ? "stays" : target === null ? `take away from ${isolated(from)}` : `${too && from !== null ? "add to" : "to"} ${isolated(target)}`;
      ghost.replaceChildren(make("strong", {}, make("bdi", {}, what)), make("span", {}, ` ${where}`));
      const box = root.getBoundingClientRect();
      Object.assign(ghost.style, { left: `${Math.min(x - box.left + 12, box.width - 60)}px`, top: `${y - box.top + 14}px` });
    },
  };
}
