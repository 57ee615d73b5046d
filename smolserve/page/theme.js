// Light and dark: the system's choice until the button has been used. It runs before the page is drawn.
"use strict";
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // without storage, the choice lasts as long as the page
  }
  const isDark = () => (chosen ? chosen === "dark" : system.matches);
  const apply = () => {
    if (chosen) root.dataset.theme = chosen;
    document.getElementById("theme")?.setAttribute("aria-pressed", isDark());
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = isDark() ? "light" : "dark";
      apply();
      try {
        localStorage.setItem("theme", chosen);
      } catch {
        // as above
      }
    });
  });
}
