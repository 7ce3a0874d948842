require "minitest/autorun"
require "logger"
require "action_controller/railtie"
require "campanile"

class Shop < Rails::Application
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "of a test"
end

class Current < ActiveSupport::CurrentAttributes
  attribute :session
  delegate :user, to: :session, allow_nil: true
  def self.user = instance.user
end

# The parts of Rails 8's generated authentication that tell who is signed in, and that redirect.
module Authentication
  extend ActiveSupport::Concern
  Session = Struct.new(:user)
  User = Struct.new(:id)

  included { before_action :require_authentication }

  class_methods do
    def allow_unauthenticated_access = skip_before_action(:require_authentication)
  end

  private

  def require_authentication = resume_session || request_authentication

  def resume_session = Current.session ||= find_session_by_cookie

  def find_session_by_cookie = cookies.signed[:session_id]&.then { |id| Session.new(User.new(id)) }

  def request_authentication = redirect_to("/session/new")
end

class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception
  include Authentication
  include Campanile::NativeApp::Authentication
  helper Campanile::Tags

  def index = render(plain: helpers.campanile_user_id.inspect)
end

class OpenController < ApplicationController
  allow_unauthenticated_access
end

require_relative "../lib/generators/campanile/install/templates/controllers/campanile_tokens_controller"

class OpenTokensController < CampanileTokensController
  allow_unauthenticated_access
end

# What a native app's request gets in the place of a redirect, by Rails 8's generated authentication and by Devise itself; and whom Rails 8's says
# is signed in.
class NativeAppTest < Minitest::Test
  NATIVE = "Shop/1.0 Hotwire Native Android;"

  def setup
    Campanile.configuration.jwt_secret = "a secret of a test, which is long enough"
  end

  def teardown
    Campanile.configuration.native_user_agents = []
    Campanile.configuration.signed_in = nil
    Current.reset
  end

  # As the app's middleware has it for a browser's request.
  def env(path, **more) = Shop.env_config.merge(Rack::MockRequest.env_for(path, **more))

  def signed_in
    jar = ActionDispatch::Request.new(env("/")).cookie_jar
    jar.signed[:session_id] = "7"
    { "HTTP_COOKIE" => "session_id=#{Rack::Utils.escape(jar[:session_id])}" }
  end

  def answer(app, agent, path = "/orders", **more) = app.call(env(path, "HTTP_USER_AGENT" => agent, **more)).first(2)

  # The status and the body, of a request of its own.
  def page(controller, action = :index, agent: "Mozilla/5.0", **more)
    Current.reset
    status, _, body = controller.action(action).call(env("/orders", "HTTP_USER_AGENT" => agent, **more))
    [status, body.each.to_a.join]
  end

  def test_rails_8s_authentication_redirects_a_browser_and_answers_an_app_401
    assert_equal 302, answer(ApplicationController.action(:index), "Mozilla/5.0")[0]
    assert_equal 401, answer(ApplicationController.action(:index), NATIVE)[0]
  end

  # Rails 8's looks for the session only where it is asked to.
  def test_a_page_that_anybody_may_see_knows_who_is_signed_in
    assert_equal [[200, '"7"'], [200, '"7"'], [200, "nil"]], [page(ApplicationController, **signed_in), page(OpenController, **signed_in), page(OpenController)]
    assert_equal [200, "nil"], page(OpenController, agent: NATIVE), "nobody is sent to a sign-in"
    assert_equal [401, ""], page(ApplicationController, agent: NATIVE)
    Campanile.configuration.signed_in = ->(_) { Authentication::User.new(8) }
    assert_equal [200, '"8"'], page(OpenController, **signed_in), "the app's own look goes first"
  end

  # It has no keys for cookies, and no session.
  def test_a_page_that_a_job_renders_has_nobody
    assert_equal "nil", OpenController.render(inline: "<%= campanile_user_id.inspect %>")
  end

  def test_a_token_is_given_wherever_the_session_is_known
    [CampanileTokensController, OpenTokensController].each do |tokens|
      status, body = page(tokens, :create, method: "POST", **signed_in)
      assert_equal [200, "7"], [status, body[/"user_id":"(\w+)"/, 1]], tokens
      assert_equal [401, ""], page(tokens, :create, method: "POST"), tokens
    end
  end

  # An app may have a page of that name.
  def test_an_action_is_not_called_for_it
    resumed = []
    controller = Class.new(OpenController) { define_method(:resume_session) { resumed << self } }
    assert_equal [[200, "nil"], []], [page(controller, **signed_in), resumed]
  end

  def test_an_apps_own_user_agent_is_one_too
    assert_equal 302, answer(ApplicationController.action(:index), "Acme/2")[0]
    Campanile.configuration.native_user_agents = ["Acme/", /\AShop\d/]
    assert_equal [401, 401, 302], ["Acme/2", "Shop2", "A Shop2"].map { |agent| answer(ApplicationController.action(:index), agent)[0] }
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
