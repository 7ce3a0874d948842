// The app's own JavaScript, which runs whatever Campanile does; its list of controllers is Stimulus's stand-in.
import { start } from "/pages/stimulus.js";
import BadgeController from "controllers/bridge/badge_controller";
import NotificationTokenController from "controllers/bridge/notification_token_controller";

window.runs = "the app's own JavaScript";
window.controllers = start({ "bridge--badge": [BadgeController], "bridge--notification-token": [NotificationTokenController] });
