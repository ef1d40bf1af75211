"use strict";
// The token comes behind '#' and is kept for this tab only.
const token = new URLSearchParams(location.hash.slice(1)).get("token") || sessionStorage.getItem("token") || "";
sessionStorage.setItem("token", token);
history.replaceState(null, "", location.pathname);

const byId = (id) => document.getElementById(id);

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

function gib(quantity) {
  const units = { Ki: 1 / 1048576, Mi: 1 / 1024, Gi: 1, Ti: 1024 };
  const m = /^(\d+)(Ki|Mi|Gi|Ti)?$/.exec(quantity || "0");
  return m ? Number(m[1]) * (m[2] ? units[m[2]] : 1 / 1073741824) : 0;
}

function meter(label, part, whole, text) {
  const box = element("div", undefined, "meter");
  const bar = element("div", undefined, "bar");
  const fill = element("div", undefined, "fill");
  fill.style.width = `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%`;
  bar.append(fill);
  box.append(element("span", label), bar, element("span", text));
  return box;
}

function cardBox(card) {
  const box = element("article", undefined, card.health === "ok" ? "card" : "card sick");
  box.append(element("h3", `${card.node} / ${card.card}`));
  box.append(element("p", card.model + (card.simulated ? " (simulated)" : ""), "model"));
  box.append(meter("memory", gib(card.granted), gib(card.memory), `${gib(card.granted).toFixed(0)} of ${gib(card.memory).toFixed(0)} GiB`));
  box.append(meter("compute", parseInt(card.compute, 10), 100, card.compute));
  box.append(element("p", card.tenants ? `held by ${card.tenants}` : "free", "holder"));
  if (card.health !== "ok") box.append(element("p", card.health, "fault"));
  return box;
}

function fillTable(table, columns, rows, empty) {
  const head = element("tr");
  for (const [title] of columns) head.append(element("th", title));
  const lines = rows.map((row) => {
    const line = element("tr");
    for (const [, key] of columns) line.append(element("td", row[key] === "" || row[key] == null ? "-" : String(row[key])));
    return line;
  });
  if (lines.length === 0) {
    const line = element("tr");
    const cell = element("td", empty, "empty");
    cell.colSpan = columns.length;
    line.append(cell);
    lines.push(line);
  }
  table.replaceChildren(head, ...lines);
}

function show(state) {
  byId("cards").replaceChildren(...state.cards.map(cardBox));
  fillTable(byId("pods"), [["Tenant", "tenant"], ["Namespace", "namespace"], ["Pod", "pod"], ["GPU", "gpu"], ["Cards", "cards"], ["Status", "status"], ["Age", "age"]], state.pods, "no pods yet");
  fillTable(byId("tenants"), [["Tenant", "name"], ["Isolation", "isolation"], ["Trust domain", "trustDomain"], ["GPUs", "gpus"], ["GPU memory", "gpuMemory"], ["Ready", "ready"]], state.tenants, "no tenants yet: kubectl apply -f examples/tenants.yaml");
}

async function refresh() {
  const status = byId("status");
  try {
    const answer = await fetch("/state", { headers: { Authorization: `Bearer ${token}` } });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.message);
    show(body);
    status.textContent = `live, ${new Date().toLocaleTimeString()}`;
    status.className = "";
  } catch (error) {
    status.textContent = error.message;
    status.className = "fault";
  }
  setTimeout(refresh, document.hidden ? 10000 : 2000);
}

refresh();
