// Connects the bridge component of examples/web to the page's form, as Stimulus does.
import TokenComponent from "/pages/notification_token_controller.js";

const form = document.querySelector("form");
window.submitted = 0;
form.requestSubmit = () => form.dispatchEvent(new SubmitEvent("submit", { cancelable: true }));
form.addEventListener("submit", (event) => {
  component.signOut(event);
  if (!event.defaultPrevented) submitted += 1;
  event.preventDefault();
});
window.alerts = [];
window.alert = (text) => alerts.push(text);
form.setAttribute("data-token-src-value", "/campanile_token.json");
const component = (window.component = new TokenComponent(form, "token"));
component.connect();
