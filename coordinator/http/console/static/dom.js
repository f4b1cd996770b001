// Makes elements. Texts become text nodes only: no name of a group or client can be read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "value" || name === "disabled" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(4).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const DENSE = "dense";

// On a narrow page each row of a table is a block with the name of each column. The rows of a dense table stay rows.
export function table(caption, head, rows, kind = "blocks") {
  for (const row of rows) [...row.cells].forEach((one, index) => { one.dataset.label = head[index][0]; });
  return h("div", { class: "scroll" }, h("table", { class: kind },
    h("caption", null, caption),
    h("thead", null, h("tr", null, head.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
    h("tbody", null, rows)));
}

export const cell = (content, kind) => h("td", { class: kind }, content ?? "–");

// Replaces the content of a place, and keeps the focus on the element with the same id.
export function show(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  const scrolls = [...place.querySelectorAll("[data-scroll]")].map((one) => [one.dataset.scroll, one.scrollTop]);
  place.replaceChildren(...children.flat(4).filter((one) => one));
  for (const [name, top] of scrolls) {
    const one = place.querySelector(`[data-scroll="${CSS.escape(name)}"]`);
    if (one) one.scrollTop = top;
  }
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

export function ask(title, content, actions) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const close = (value) => { dialog.close(); resolve(value); };
    dialog.oncancel = () => resolve(null);
    dialog.replaceChildren(h("form", { method: "dialog", submit: (event) => { event.preventDefault(); } },
      h("h2", { id: "dialog-title" }, title), content,
      h("div", { class: "bar" }, actions.map(([text, kind, value]) =>
        h("button", { type: kind === "primary" || kind === "danger" ? "submit" : "button", class: kind,
          click: () => close(typeof value === "function" ? value() : value) }, text)))));
    dialog.showModal();
  });
}
