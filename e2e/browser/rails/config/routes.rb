Rails.application.routes.draw do
  resource :session, only: %i[create destroy]
  get "ready", to: "pages#show"
  get "documented/*path", to: "pages#documented"
  get "*path", to: "pages#show"
end
