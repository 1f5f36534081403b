// Sorting, filtering and saving. Everything is there without this script; what is chosen is kept in the address.
"use strict";
(() => {
  const form = document.querySelector(".controls");
  const tables = [...document.querySelectorAll("main table")];
  const sections = [...document.querySelectorAll("section[data-setting]")];
  const original = new Map(tables.map((table) => [table, [...table.tBodies[0].rows]]));

  const choices = ["setting", "kind", "metric", "search"];
  const boxes = [...(form?.querySelectorAll("[type=checkbox]") ?? [])];
  const control = (name) => form?.elements.namedItem(name);
  const columns = (table) => [...table.tHead.rows[0].cells];
  const name = (head) => head.dataset.name;
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/,/g, ""));
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const before = (one, other) => {
    if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
    return typeof one === "number" ? -1 : 1;
  };

  const words = (row) => [...row.querySelectorAll("th, .fact")].map((cell) => cell.textContent).join(" ").toLowerCase();
  // What the tables say of a record, as only the first one names its encoder; not the line about it, with its keys.
  const facts = new Map();
  const identity = (row) => row.id || row.querySelector('th a[href*="#record-"]')?.hash.slice(1) || row;
  [...original.values()].flat().filter((row) => !row.id).forEach((row) => {
    facts.set(identity(row), `${facts.get(identity(row)) ?? ""} ${words(row)}`);
  });

  function sort(table, column, direction) {
    const rows = [...original.get(table)];
    columns(table).forEach((head, place) => {
      if (place === column && direction) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
    if (direction) {
      const sign = direction === "ascending" ? 1 : -1;
      rows.sort((a, b) => {
        const [one, other] = [value(a, column), value(b, column)];
        if (one === null || other === null) return (one === null) - (other === null);
        return sign * before(one, other);
      });
    }
    table.tBodies[0].append(...rows);
  }

  const read = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  let chosen = read();

  function apply() {
    // What a page does not offer, as a link from another one may ask for, changes nothing.
    const choice = (name) => {
      const value = chosen.get(name) || "";
      if (name === "search") return control(name) ? value : "";
      return [...(control(name)?.options ?? [])].some((option) => option.value === value) ? value : "";
    };
    const [setting, kind, metric, search] = choices.map(choice);
    const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
    sections.forEach((part) => { part.hidden = Boolean(setting) && part.dataset.setting !== setting; });
    const shown = new Set();
    tables.forEach((table) => {
      const filtered = original.get(table).some((row) => row.dataset.kinds);
      original.get(table).forEach((row) => {
        if (!filtered) return;
        const text = wanted.length ? `${facts.get(identity(row)) ?? ""} ${words(row)}` : "";
        row.hidden = (Boolean(kind) && !(row.dataset.kinds || "").split(" ").includes(kind))
          || wanted.some((word) => !text.includes(word));
        if (!row.hidden && !table.closest("[hidden]")) shown.add(identity(row));
      });
    });
    const without = (chosen.get("without") || "").split(",");
    boxes.forEach((box) => { box.checked = !without.includes(box.value); });
    const hidden = boxes.filter((box) => !box.checked).map((box) => box.value);
    tables.forEach((table) => {
      // A column of a group of labels is headed "seen P@1".
      const places = columns(table).map((head) => hidden.includes(name(head).split(" ").pop()));
      for (const row of table.rows) [...row.cells].forEach((cell, place) => { cell.hidden = places[place]; });
    });
    const [which, column, direction] = (chosen.get("sort") || "").split("~");
    tables.forEach((table) => {
      const place = columns(table).findIndex((head) => name(head) === metric);
      if (table.id === which && columns(table)[column] && /^(as|des)cending$/.test(direction)) {
        sort(table, Number(column), direction);
      } else sort(table, place, place < 0 ? "" : "descending");
    });
    if (form) {
      choices.forEach((name) => { if (control(name)) control(name).value = choice(name); });
      form.querySelector(".status").textContent = `${shown.size} ${shown.size === 1 ? "row" : "rows"} shown`;
    }
    document.querySelectorAll("nav a[href]").forEach((link) => {
      const rest = new URLSearchParams(chosen);
      rest.delete("sort");
      const kept = [...rest].some(([key]) => key === "without" || choices.includes(key));
      link.setAttribute("href", link.getAttribute("href").split("#")[0] + (kept ? `#${rest}` : ""));
    });
  }

  function choose(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value) chosen.set(key, value);
      else chosen.delete(key);
    }
    history.replaceState(null, "", `#${chosen}`);
    apply();
  }

  tables.forEach((table) => {
    columns(table).forEach((head, column) => {
      const mark = head.querySelector("sup");
      if (mark) mark.remove();
      head.dataset.name = head.textContent.trim();
      if (!head.dataset.name) return; // a button needs a name
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button, ...(mark ? [mark] : []));
      button.addEventListener("click", () => {
        // Figures are best at the top, names in the order of the alphabet.
        const [usual, other] = column && !head.classList.contains("fact")
          ? ["descending", "ascending"] : ["ascending", "descending"];
        const next = head.getAttribute("aria-sort") === usual ? other : usual;
        choose({ sort: `${table.id}~${column}~${next}` });
      });
    });
  });
  if (form) {
    form.hidden = false;
    form.addEventListener("input", (event) => {
      if (!boxes.includes(event.target)) choose({ [event.target.name]: event.target.value, sort: "" });
      else choose({ without: boxes.filter((box) => !box.checked).map((box) => box.value).join(",") });
    });
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      choose({ setting: "", kind: "", metric: "", search: "", without: "", sort: "" });
    });
  }
  const content = (cell) => {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll("sup, small, span").forEach((part) => part.remove());
    return copy.textContent.trim();
  };
  // What a spreadsheet takes for a formula is quoted, unless it is a number.
  const field = (text) => {
    const inert = /^[ "]*[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\n]/.test(inert) ? `"${inert.replace(/"/g, '""')}"` : inert;
  };
  // The rows and columns that are shown, in their order; a column with intervals is followed by one of their half-widths.
  function csv(table) {
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const lines = [[], ...rows.map(() => [])];
    columns(table).forEach((head, place) => {
      if (head.hidden) return;
      const cells = rows.map((row) => row.cells[place]);
      const spreads = cells.map((cell) => (cell.querySelector("small")?.textContent ?? "").replace("\u00b1", ""));
      [name(head), ...cells.map(content)].forEach((text, line) => lines[line].push(text));
      if (spreads.some(Boolean)) [`${name(head)} \u00b1`, ...spreads].forEach((text, line) => lines[line].push(text));
    });
    return lines.map((line) => line.map(field).join(",") + "\n").join("");
  }
  tables.forEach((table) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "csv";
    button.textContent = "Download CSV";
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
      link.download = `${table.id || "table"}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    table.closest(".wide").after(button);
  });
  document.querySelectorAll(".compare").forEach((part) => {
    const { metrics, pairs } = JSON.parse(part.querySelector("script").textContent);
    const [first, second] = part.querySelectorAll("select");
    const count = first.options.length - 1;
    const cell = (kind, text) => {
      const made = document.createElement(kind);
      made.textContent = text;
      return made;
    };
    const row = (kind, texts) => {
      const made = document.createElement("tr");
      made.append(cell("th", texts[0]), ...texts.slice(1).map((text) => cell(kind, text)));
      return made;
    };
    const signed = (value) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(2);
    part.hidden = false;
    part.addEventListener("change", () => {
      const shown = part.querySelector("[role=status]");
      shown.replaceChildren();
      if (!first.value || !second.value || first.value === second.value) return;
      const [low, high] = [Number(first.value), Number(second.value)].sort((one, other) => one - other);
      const sign = Number(first.value) === low ? 1 : -1;
      const found = pairs[(low * (2 * count - low - 1)) / 2 + high - low - 1];
      const table = document.createElement("table");
      table.append(row("th", ["Metric", "difference", "95% interval", "p"]));
      metrics.forEach((metric, place) => {
        // Hundredths of a point, and ten thousandths of p.
        const [delta, least, most, p] = found[place];
        const ends = sign > 0 ? [least, most] : [-most, -least];
        const points = [delta * sign, ...ends].map((value) => signed(value / 100));
        const texts = [points[0], points.slice(1).join(" to "), p ? (p / 1e4).toFixed(4) : "< 0.0001"];
        table.append(row("td", [metric, ...texts]));
      });
      const note = "Points; paired test over instances and seeds, without a correction. "
        + "Runs on few-shot subsets that only one of the rows has are left out.";
      shown.append(table, cell("p", note));
    });
  });
  addEventListener("hashchange", () => {
    // A link within the page, as to a note, leaves what is chosen as it is.
    if (location.hash && !location.hash.includes("=")) return;
    chosen = read();
    apply();
  });
  apply();
})();
