require "minitest/autorun"
require "logger"
require "action_controller/railtie"
require "campanile"

class Shop < Rails::Application
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "of a test"
end

# What a native app's request gets in the place of a redirect, by Rails 8's generated authentication (its one method that redirects) and by
# Devise itself.
class NativeAppTest < Minitest::Test
  NATIVE = "Shop/1.0 Hotwire Native Android;"

  class Generated < ActionController::Base
    module Authentication
      private

      def request_authentication = redirect_to("/session/new")
    end
    include Authentication
    include Campanile::NativeApp::Authentication

    def index = request_authentication
  end

  def teardown
    Campanile.configuration.native_user_agents = []
  end

  def answer(app, agent, path = "/orders", **more) = app.call(Rack::MockRequest.env_for(path, "HTTP_USER_AGENT" => agent, **more)).first(2)

  def test_rails_8s_authentication_redirects_a_browser_and_answers_an_app_401
    assert_equal 302, answer(Generated.action(:index), "Mozilla/5.0")[0]
    assert_equal 401, answer(Generated.action(:index), NATIVE)[0]
  end

  def test_an_apps_own_user_agent_is_one_too
    assert_equal 302, answer(Generated.action(:index), "Acme/2")[0]
    Campanile.configuration.native_user_agents = ["Acme/", /\AShop\d/]
    assert_equal [401, 401, 302], ["Acme/2", "Shop2", "A Shop2"].map { |agent| answer(Generated.action(:index), agent)[0] }
  end

  def test_devise_does_the_same_and_shows_the_form_after_a_wrong_password
    begin
      require "devise"
    rescue LoadError
      skip "Devise isn't here"
    end
    Campanile::Railtie.initializers.find { |one| one.name == "campanile.devise" }.run
    failure = Class.new(Devise::FailureApp) do
      def scope_url = "/users/sign_in"
      def recall = (self.status = 200) && self.response_body = "the form"
      def store_location! = nil
      def i18n_message(*) = nil
    end
    options = { "warden" => Struct.new(:message).new, "warden.options" => { scope: :user, attempted_path: "/orders" } }
    assert_equal 302, answer(failure, "Mozilla/5.0", **options)[0]
    assert_equal 401, answer(failure, NATIVE, **options)[0]
    options["warden.options"][:recall] = "Devise::SessionsController#new"
    assert_equal 200, answer(failure, NATIVE, **options)[0]
  end
end
