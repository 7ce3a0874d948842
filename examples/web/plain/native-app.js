// Asks Campanile whether the page is inside a native app, by its own User-Agent, and marks the page if it is. One rule for
// all pages: the server's, which also knows the apps of `native_user_agents`.
const campanile = document.querySelector("meta[name=campanile]").content;

// The answer holds for this web view, so that only its first page waits for it.
async function isNative() {
  const known = sessionStorage.getItem("campanile.native");
  if (known !== null) return known === "true";
  const answer = await fetch(`${campanile}/client`);
  if (!answer.ok) throw new Error(`GET /client: ${answer.status}`);
  const { native } = await answer.json();
  sessionStorage.setItem("campanile.native", String(native));
  return native;
}

isNative().then(
  (native) => document.documentElement.classList.toggle("native-app", native),
  (error) => console.warn("Whether this is a native app isn't known, so the page is shown as in a browser.", error),
);
