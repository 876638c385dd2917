// Choices of a person that the browser remembers, such as whether moves make a sound.

/**
 * Restore a checkbox or menu from the browser's memory, and store it whenever it changes. Controls
 * with the same name share their value between pages.
 */
export function keepChoice(control, name, onChange = () => {}) {
  const key = `zerolab-${name}`;
  const isCheckbox = control.type === "checkbox";
  const stored = localStorage.getItem(key);
  if (stored !== null && isCheckbox) control.checked = stored === "true";
  if (stored !== null && !isCheckbox && [...control.options].some((each) => each.value === stored)) control.value = stored;
  control.addEventListener("change", () => {
    localStorage.setItem(key, isCheckbox ? String(control.checked) : control.value);
    onChange();
  });
}
