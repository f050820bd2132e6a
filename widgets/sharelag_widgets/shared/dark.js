// Which colours are seen on a view's paper.

/** Whether it is dark: with forced colours, the browser says so as if the system was. */
export const isDark = ({ dataset: { theme } }) => theme === "dark" || (theme === "forced" && matchMedia("(prefers-color-scheme: dark)").matches);
