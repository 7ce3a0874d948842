// To be added to the app's own app/javascript/application.js.
import "@hotwired/turbo-rails";
import "campanile/badge";
import "controllers";
