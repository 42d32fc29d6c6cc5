// Small functions that run on an element of a page, as `this`, beside the page's own scripts. Each
// is found by the name in the comment above it.

// fill: makes a field ready for typing, or fills it where typing does not work
function (text) {
  const own = this.nodeType === 1 ? this : this.parentElement;
  const kind = own.tagName === 'INPUT' ? own.type : own.tagName.toLowerCase();
  if (own.disabled || own.readOnly) return 'locked';
  if (['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'].includes(kind)) {
    own.value = text;
    own.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    own.dispatchEvent(new Event('change', {bubbles: true}));
    return own.value.toLowerCase() === text.toLowerCase() ? 'filled' : 'rejected';
  }
  const others = ['checkbox', 'radio', 'file', 'button', 'submit', 'image', 'reset', 'select'];
  if (others.includes(kind)) return 'other';
  own.focus();
  if (own.tagName === 'INPUT' || own.tagName === 'TEXTAREA') { own.select(); return 'ready'; }
  if (!own.isContentEditable) return 'other';
  getSelection().selectAllChildren(own);
  return 'ready';
}

// choose: sets the options of a list by their labels or values
function (wanted) {
  if (this.tagName !== 'SELECT') return 'other';
  if (this.disabled) return 'locked';
  const plain = text => text.replace(/\s+/g, ' ').trim();
  const names = this.multiple ? wanted.split('\n').map(plain) : [plain(wanted)];
  const chosen = [];
  for (const name of names) {
    const all = [...this.options];
    const found = all.find(one => plain(one.label) === name) || all.find(one => one.value === name);
    if (!found || found.disabled) return 'missing';
    chosen.push(found);
  }
  for (const one of this.options) one.selected = chosen.includes(one);
  this.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return 'chosen';
}

// checked: whether a box or switch is on
function () {
  const own = this.tagName === 'LABEL' && this.control ? this.control : this;
  if (own.disabled) return 'locked';
  if (['checkbox', 'radio'].includes(own.type)) return own.checked ? 'on' : 'off';
  const told = own.getAttribute('aria-checked') || own.getAttribute('aria-pressed');
  return told === null ? 'other' : told === 'true' ? 'on' : 'off';
}

// files: how a field for files is found from the element
function () {
  const files = one => one && one.tagName === 'INPUT' && one.type === 'file';
  if (files(this)) return 'own';
  if (files(this.control)) return 'label';
  return files(this.querySelector('input[type=file]')) ? 'inside' : 'other';
}

// draggable: whether the page says what is dragged
function () {
  const own = this.nodeType === 1 ? this : this.parentElement;
  return !!own.closest('[draggable=true], a[href], img');
}

// takes: whether a click on `hit` reaches the element: on it, inside it, or on its label
function (hit) {
  const own = this.nodeType === 1 ? this : this.parentElement;
  for (let node = hit; node; node = node.parentNode || node.host) if (node === own) return true;
  const element = hit.nodeType === 1 ? hit : hit.parentElement;
  const label = element && element.closest('label');
  return !!label && label.control === own;
}
