/* Elements of the page: finding them, making them. All texts are set as text, never as markup. */

const byId = (id) => document.getElementById(id);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function makeButton(text, act) {
  const button = make("button", "", text);
  button.type = "button";
  button.addEventListener("click", act);
  return button;
}

/* A field under its label; `change` gets its element whenever somebody has changed it. */
function makeField(text, field, change) {
  const label = make("label", "", text);
  field.addEventListener("input", () => change(field));
  label.append(field);
  return label;
}

function makeInput(value, placeholder = "") {
  const input = make("input");
  input.value = value;
  input.placeholder = placeholder;
  return input;
}

function makeSelect(options, chosen) {
  const select = make("select");
  select.append(...options.map((option) => new Option(option, option)));
  select.value = chosen;
  return select;
}
