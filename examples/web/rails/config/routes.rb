# To be added to the app's own config/routes.rb.
Rails.application.routes.draw do
  resource :campanile_token, only: :create
  resources :notifications, only: %i[index update destroy] do
    post :mark_all_read, on: :collection
  end
end
