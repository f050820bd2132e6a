// The theme around a view, and its changes: JupyterLab's, the system's, forced colours, or paper.

const QUERIES = ["(prefers-color-scheme: dark)", "(prefers-contrast: more)", "(forced-colors: active)", "print"];
const CHOSEN = "sharelag-theme";
const LAB = ["data-jp-theme-light", "data-jp-theme-name", "class", "style"];

/**
 * Mark `root` with its theme (data-theme, data-contrast, data-paper; data-look: all), now and whenever it changes.
 * @param {HTMLElement} root
 * @param {() => void} repaint called after each change
 * @returns {() => void} stops watching
 */
export function watchTheme(root, repaint) {
  const apply = () => {
    const [theme, contrast] = [themeOf(root), contrastOf()];
    const paper = theme === "forced" ? paperOfSystem() : theme;
    const look = `${theme} ${contrast} ${paper}`;
    if (root.dataset.look === look) return;
    Object.assign(root.dataset, { theme, contrast, paper, look });
    repaint();
  };
  const observer = new MutationObserver(apply);
  for (const element of [document.documentElement, document.body]) {
    observer.observe(element, { attributes: true, attributeFilter: LAB });
  }
  const queries = QUERIES.map((query) => matchMedia(query));
  for (const query of queries) query.addEventListener("change", apply);
  // A view is rendered before it is in the page, where its surroundings are known.
  const seen = new IntersectionObserver(apply);
  seen.observe(root);
  document.addEventListener(CHOSEN, apply);
  apply();
  return () => {
    document.removeEventListener(CHOSEN, apply);
    observer.disconnect();
    seen.disconnect();
    for (const query of queries) query.removeEventListener("change", apply);
  };
}

/** Show an element's content light or dark; "" follows the page. */
export function chooseTheme(element, theme) {
  element.dataset.slTheme = theme;
  document.dispatchEvent(new Event(CHOSEN));
}

/** light, dark or forced. */
function themeOf(root) {
  if (matchMedia("(forced-colors: active)").matches) return "forced";
  if (matchMedia("print").matches) return "light";
  const chosen = root.closest("[data-sl-theme]")?.dataset.slTheme;
  if (chosen) return chosen;
  const lab = document.body.dataset.jpThemeLight;
  if (lab !== undefined) return lab === "false" ? "dark" : "light";
  for (let element = root.parentElement; element; element = element.parentElement) {
    const paper = rgba(getComputedStyle(element).backgroundColor);
    if (paper[3] > 0.5) return 0.3 * paper[0] + 0.59 * paper[1] + 0.11 * paper[2] < 110 ? "dark" : "light";
  }
  // Nothing is painted: the browser paints dark only where the page allows it.
  const allowed = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  return allowed ? paperOfSystem() : "light";
}

/** light or dark; with forced colours, too, the browser says which they are. */
function paperOfSystem() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function contrastOf() {
  const named = (document.body.dataset.jpThemeName ?? "").includes("High Contrast");
  return named || matchMedia("(prefers-contrast: more)").matches ? "more" : "normal";
}

/** Red, green, blue (0 to 255) and alpha (0 to 1) of a computed colour. */
function rgba(text) {
  const parts = (text.match(/[\d.]+/g) ?? []).map(Number);
  return [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0, text.startsWith("rgba") ? (parts[3] ?? 1) : 1];
}
