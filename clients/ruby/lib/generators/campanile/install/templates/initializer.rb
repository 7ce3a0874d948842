Campanile.configure do |campanile|
  # CAMPANILE_URL, CAMPANILE_KEY and CAMPANILE_JWT_SECRET in the environment. In development Procfile.dev has the server make key and secret.
  if Rails.env.development?
    campanile.key_file = Rails.root.join("storage/campanile.key").to_s
    campanile.jwt_secret_file = Rails.root.join("storage/campanile.sqlite.jwt_secret").to_s
  end
  # Who is signed in: `current_user`, or else `Current.user`. For any other:
  # campanile.signed_in = ->(controller) { controller.session[:user_id] && User.find_by(id: controller.session[:user_id]) }
end
