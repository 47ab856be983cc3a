// A little comfort; every page works without it: copy buttons, local times, keys.
"use strict";

(() => {
  const units = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

  const words = (moment) => {
    const age = (Date.now() - moment) / 1000;
    const unit = units.find(([, seconds]) => age >= seconds);
    return unit ? relative.format(-Math.floor(age / unit[1]), unit[0]).replace(".", "") : "just now";
  };

  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    time.title = exact.format(moment);
    time.textContent = "exact" in time.dataset ? short.format(moment) : words(moment);
  }

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const before = button.textContent;
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select the path instead";
      }
      setTimeout(() => { button.textContent = before; }, 2000);
    });
  }

  const rows = [...document.querySelectorAll("[data-rows] > li")];
  let selected = -1;
  const select = (next) => {
    rows[selected]?.classList.remove("selected");
    selected = Math.max(0, Math.min(rows.length - 1, next));
    const row = rows[selected];
    if (!row) return;
    row.classList.add("selected");
    (row.querySelector("a, summary") ?? row).focus();
    row.scrollIntoView({ block: "nearest" });
  };

  const help = () => {
    let dialog = document.querySelector("dialog.keys");
    if (!dialog) {
      dialog = document.createElement("dialog");
      dialog.className = "keys";
      dialog.setAttribute("aria-label", "Keys");
      const list = document.createElement("dl");
      const keys = [["/", "go to the search or filter box"], ["j", "next line"], ["k", "line before"], ["Esc", "close this"]];
      for (const [key, what] of keys) {
        const name = document.createElement("dt");
        name.append(Object.assign(document.createElement("kbd"), { textContent: key }));
        list.append(name, Object.assign(document.createElement("dd"), { textContent: what }));
      }
      dialog.append(list);
      document.body.append(dialog);
    }
    dialog.showModal();
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    const box = document.querySelector("[data-focus]");
    if (event.key === "/") {
      if (box) box.focus();
      else location.assign("/search");
    } else if (event.key === "j") select(selected + 1);
    else if (event.key === "k") select(selected - 1);
    else if (event.key === "?") help();
    else return;
    event.preventDefault();
  });
})();
