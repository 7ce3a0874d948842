# To be added to the app's own config/routes.rb.
Rails.application.routes.draw do
  resource :campanile_token, only: :create
end
