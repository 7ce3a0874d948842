// Shows the inbox at /notifications and nowhere else: in a native app, loading the list clears the badge.
const place = "campanile.token"; // in this tab's sessionStorage

// A page with a sign-in of its own asks its server for the token here.
document.addEventListener("campanile:token", ({ target }) => {
  const token = sessionStorage.getItem(place);
  if (token && token !== target.getAttribute("token")) target.setAttribute("token", token);
});

document.addEventListener("submit", (event) => {
  const inbox = event.target.closest("campanile-inbox");
  if (!inbox) return;
  event.preventDefault();
  const token = new FormData(event.target).get("token").trim();
  sessionStorage.setItem(place, token);
  inbox.setAttribute("token", token);
});

document.addEventListener("turbo:load", () => {
  if (location.pathname !== "/notifications" || document.querySelector("campanile-inbox")) return;
  document.querySelector("main").append(document.getElementById("inbox").content.cloneNode(true));
});
