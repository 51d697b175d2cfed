/* What the browser keeps, as JSON. Where it keeps nothing, as with blocked cookies, this page does
   as long as it is open, and says so. */

class PageStorage {
  constructor() { this.values = new Map(); }
  get length() { return this.values.size; }
  key(index) { return [...this.values.keys()][index]; }
  getItem(key) { return this.values.get(key) ?? null; }
  setItem(key, text) { this.values.set(key, text); }
  removeItem(key) { this.values.delete(key); }
}

function findStorage(name) {
  try {
    const found = window[name];
    found.getItem("constrained");
    return found;
  } catch {
    return new PageStorage();
  }
}

const stored = findStorage("localStorage");
const storedForTab = findStorage("sessionStorage");
const KEEPS = !(stored instanceof PageStorage);

function readStored(key, fallback) {
  try {
    return JSON.parse(stored.getItem(key)) ?? fallback;
  } catch {
    return fallback; // something else wrote there
  }
}

/* Says so where there is no room for it. */
function keep(key, value) {
  const fault = byId("kept-fault");
  try {
    stored.setItem(key, JSON.stringify(value));
    fault.textContent = "";
  } catch {
    fault.textContent = "The storage of the browser is full: new messages are not saved. Delete conversations.";
  }
}

function listStored(prefix) {
  const keys = Array.from({ length: stored.length }, (_, index) => stored.key(index));
  return keys.filter((key) => key.startsWith(prefix));
}
