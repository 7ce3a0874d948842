require "minitest/autorun"
require "logger"
require "tmpdir"
require "action_controller/railtie"
require "active_record/railtie"
require "active_support/testing/time_helpers"
begin
  require "devise"
rescue LoadError
  warn "Devise isn't here"
  exit
end
ENV["DATABASE_URL"] = "sqlite3::memory:"
require "devise/orm/active_record"
require "campanile"

class Shop < Rails::Application
  config.load_defaults 6.1
  config.root = Dir.mktmpdir("campanile-shop-").tap { |folder| Minitest.after_run { FileUtils.rm_rf(folder) } }
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "of a test" * 8
  config.hosts.clear
end

Devise.setup do |config|
  config.secret_key = "of a test" * 8
  config.timeout_in = 30.minutes
end

Shop.initialize!

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table :users do |t|
    t.string :email
    t.string :encrypted_password
  end
end

class User < ActiveRecord::Base
  devise :database_authenticatable, :timeoutable
end

class ApplicationController < ActionController::Base
  # As an app reads a user's language.
  before_action { @language = current_user }
  before_action :authenticate_user!

  def index = head(:ok)
end

class SessionsController < ActionController::Base
  def show = sign_in(User.create!(email: "alice@example.com", encrypted_password: "x")) && head(:ok)
end

require_relative "../lib/generators/campanile/install/templates/controllers/campanile_tokens_controller"

Shop.routes.draw do
  devise_for :users
  resource :session, only: :show
  resource :campanile_token, only: :create
  get "/orders", to: "application#index"
end

# What a session of Devise's that times out (`timeoutable`) is to a page that is open, and asks for tokens by itself.
class DeviseTest < Minitest::Test
  include ActiveSupport::Testing::TimeHelpers

  def setup
    Campanile.configuration.jwt_secret = "a secret of a test, which is long enough"
    @app = ActionDispatch::Integration::Session.new(Shop)
    @begun = Time.now
    @app.get("/session")
  end

  def teardown = travel_back

  # The status of a request so many minutes after the sign-in.
  def at(minutes, verb = :get, path = "/orders")
    travel_to(@begun + (minutes * 60)) { @app.public_send(verb, path) }
  end

  def token(minutes) = at(minutes, :post, "/campanile_token")

  def test_an_open_page_that_nobody_touches_times_out
    assert_equal([200] * 3, [10, 20, 29].map { |minutes| token(minutes) })
    assert_equal 302, at(31)
  end

  def test_a_user_who_does_something_stays
    assert_equal([200] * 4, [at(20), token(30), at(45), token(70)])
  end

  def test_the_first_ask_after_the_time_out_is_told_so_and_sent_nowhere
    2.times do
      assert_equal 401, token(31)
      assert_equal ["", nil], [@app.response.body, @app.response.headers["Location"]]
    end
    assert_equal 302, at(32)
  end
end
