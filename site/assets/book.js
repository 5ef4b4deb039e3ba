// The search, and the switch between light and dark. The index is a script too, loaded when the first letter is
// typed, so that all of it works where the book is opened as a file.
"use strict";
(() => {
  const top = document.currentScript.dataset.top;
  const address = new URLSearchParams(location.search);
  const root = document.documentElement;

  const stored = () => {
    try { return localStorage.getItem("theme"); } catch { return null; }
  };
  const theme = address.get("theme") || stored();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  const switchTheme = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme || dark) === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    try { localStorage.setItem("theme", next); } catch { /* not remembered */ }
  };

  // The index, with what is compared in small letters.
  let index = null;
  const load = (then) => {
    if (index) return then();
    const script = document.createElement("script");
    script.src = top + "index.js";
    script.onload = () => {
      index = window.book.map(([url, page, heading, text]) => ({
        url, page, heading, text,
        names: (page + " " + heading).toLowerCase(), words: text.toLowerCase(),
      }));
      then();
    };
    document.head.append(script);
  };

  // Every word must occur; a word of a heading counts more than many of the text, earlier pages more than later.
  const find = (query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const found = [];
    index.forEach((entry, place) => {
      let score = -place / index.length;
      for (const word of words) {
        const count = entry.words.split(word).length - 1;
        const named = entry.names.includes(word);
        if (!count && !named) return;
        score += Math.min(count, 4) + (named ? 8 : 0);
      }
      found.push({ entry, score });
    });
    found.sort((a, b) => b.score - a.score);
    return found.map(({ entry }) => ({ entry, words }));
  };

  // The text around the first word, with the words marked.
  const excerpt = ({ text, words: lower }, words) => {
    const at = Math.max(0, Math.min(...words.map((word) => lower.indexOf(word)).filter((i) => i >= 0), text.length));
    const start = at === text.length ? 0 : Math.max(0, text.lastIndexOf(" ", Math.max(0, at - 50)));
    const piece = (start ? "… " : "") + text.slice(start, start + 180).trim() + (start + 180 < text.length ? " …" : "");
    const line = document.createElement("span");
    line.className = "excerpt";
    const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    piece.split(new RegExp("(" + escaped.join("|") + ")", "i")).forEach((part, i) => {
      const node = i % 2 ? document.createElement("mark") : document.createTextNode(part);
      if (i % 2) node.textContent = part;
      line.append(node);
    });
    return line;
  };

  const show = (results, query) => {
    const found = find(query);
    results.replaceChildren();
    results.hidden = !query.trim();
    const note = document.createElement("p");
    note.setAttribute("role", "status");
    note.textContent = found.length ? `${found.length} found` : "Nothing found";
    results.append(note);
    for (const { entry, words } of found.slice(0, 30)) {
      const link = document.createElement("a");
      link.href = top + entry.url;
      const name = document.createElement("b");
      name.textContent = entry.heading || entry.page;
      link.append(name);
      if (entry.heading && entry.heading !== entry.page) {
        const page = document.createElement("small");
        page.textContent = entry.page;
        link.append(" ", page);
      }
      if (entry.text) link.append(excerpt(entry, words));
      results.append(link);
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".theme").addEventListener("click", switchTheme);
    const form = document.querySelector(".search");
    const input = form.querySelector("input");
    const results = form.querySelector(".results");
    const search = () => load(() => show(results, input.value));
    const close = () => { results.hidden = true; };

    input.addEventListener("input", search);
    input.addEventListener("focus", () => { if (input.value) search(); });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const first = results.querySelector("a");
      if (!results.hidden && first) first.click(); else search();
    });
    document.addEventListener("click", (event) => { if (!form.contains(event.target)) close(); });
    results.addEventListener("click", (event) => { if (event.target.closest("a")) close(); });
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        input.focus();
      } else if (event.key === "Escape") {
        close();
      } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && form.contains(document.activeElement)) {
        const stops = [input, ...results.querySelectorAll("a")];
        const at = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
        if (stops[at]) { event.preventDefault(); stops[at].focus(); }
      }
    });

    // The column shows where one is.
    const here = document.querySelector(".column [aria-current]");
    const column = here && here.closest(".column");
    if (column && here.offsetTop > column.clientHeight * 0.7) column.scrollTop = here.offsetTop - column.clientHeight / 3;

    const query = address.get("q");
    if (query) { input.value = query; search(); }
  });
})();
