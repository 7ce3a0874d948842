// React can't be installed by Debian's or Python's package tools. What the documented hook needs of it is made again here from
// its documentation: state that calls the component again, effects that end when what they depend on changes.

let component;
let place = 0;
const kept = [];
const run = () => {
  place = 0;
  component();
};

export function start(first) {
  component = first;
  run();
}

export function useState(initial) {
  const mine = place++;
  kept[mine] ??= initial;
  const set = (value) => {
    kept[mine] = value;
    queueMicrotask(run);
  };
  return [kept[mine], set];
}

export function useEffect(effect, dependencies) {
  const mine = place++;
  const before = kept[mine];
  if (before && dependencies.every((value, index) => Object.is(value, before.dependencies[index]))) return;
  before?.end?.();
  kept[mine] = { dependencies, end: effect() };
}
