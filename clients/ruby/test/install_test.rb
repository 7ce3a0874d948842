require "test_helper"
require "open3"
require "rails/generators"
require "generators/campanile/install/install_generator"

# The generator in apps that `rails new` makes, and the pages of one of them.
class InstallTest < CampanileTest
  GEMFILE = <<~RUBY
    gem "rails"
    gem "sqlite3"
    gem "puma"
    gem "campanile", path: "#{File.expand_path("..", __dir__)}"
  RUBY
  SKIPPED = %w[bundle git javascript turbolinks spring bootsnap listen action-mailbox action-text active-storage system-test].map { |part| "--skip-#{part}" }
  LAYOUT = "app/views/layouts/application.html.erb"

  # A new app, made once and copied for each test.
  def self.skeleton
    @skeleton ||= Dir.mktmpdir("campanile-rails-").tap do |folder|
      Minitest.after_run { FileUtils.rm_rf(folder) }
      run_in(folder, "rails", "new", ".", "--name", "shop", *SKIPPED)
      File.write(File.join(folder, "Gemfile"), GEMFILE)
      run_in(folder, "bundle", "install", "--local")
    end
  end

  def self.run_in(folder, *command, **environment)
    said, status = Open3.capture2e({ "BUNDLE_SILENCE_ROOT_WARNING" => "1", "RUBYOPT" => "", **environment.transform_keys(&:to_s) }, *command, chdir: folder)
    status.success? ? said : raise("#{command.join(" ")}:\n#{said}")
  end

  def setup
    super
    @app = Dir.mktmpdir("campanile-rails-")
    FileUtils.cp_r("#{self.class.skeleton}/.", @app)
  end

  def teardown = FileUtils.rm_rf(@app)

  def test_a_second_run_changes_nothing_and_neither_touches_what_is_the_apps
    write "app/controllers/notifications_controller.rb", "class NotificationsController < ApplicationController\nend\n"
    said = install
    assert_includes said, "notifications_controller.rb is another one"
    assert_equal "class NotificationsController < ApplicationController\nend\n", read("app/controllers/notifications_controller.rb")
    before = contents
    install
    assert_equal before, contents
  end

  def test_an_import_map_gets_pins_copies_and_the_bridge
    write "config/importmap.rb", "pin \"application\"\n"
    write "app/javascript/application.js", "import \"controllers\"\n"
    said = install
    assert_includes said, "bin/importmap pin @hotwired/hotwire-native-bridge"
    assert_equal "pin \"application\"\n#{Campanile::Generators::InstallGenerator::PINS}", read("config/importmap.rb")
    assert_equal "import \"controllers\"\nimport \"campanile/badge\"\n", read("app/javascript/application.js")
    assert_includes read("app/javascript/controllers/bridge/badge_controller.js"), 'from "campanile/badge_controller"'
    %w[badge.js badge_controller.js].each { |name| assert_equal piece(name), read("vendor/javascript/campanile/#{name}") }
    refute_includes read(LAYOUT), "/campanile/badge.js"
  end

  def test_a_bundler_gets_files_that_it_finds
    write "app/javascript/application.js", "import \"./controllers\"\n"
    write "package.json", "{}"
    assert_includes install, "yarn add @hotwired/hotwire-native-bridge"
    assert_includes read("app/javascript/application.js"), 'import "./campanile/badge"'
    assert_includes read("app/javascript/controllers/bridge/badge_controller.js"), 'from "../../campanile/badge_controller"'
    assert_equal piece("badge.js"), read("app/javascript/campanile/badge.js")
    before = contents
    install
    assert_equal before, contents
  end

  def test_without_either_the_element_is_a_module_by_itself
    install
    assert_equal piece("badge.js"), read("public/campanile/badge.js")
    assert_includes read(LAYOUT), 'javascript_include_tag "/campanile/badge.js", type: "module"'
  end

  TURBO = "import \"@hotwired/turbo-rails\"\nimport \"controllers\"\n"
  CABLES = "development:\n  adapter: async\n\nproduction:\n  adapter: redis\n  url: <%= ENV[\"REDIS_URL\"] %>\n"

  def test_the_apps_own_broadcasts_are_offered_and_left_alone
    write "app/javascript/application.js", TURBO
    write "config/importmap.rb", ""
    write "config/cable.yml", CABLES
    assert_includes install, "bin/rails generate campanile:install --cable"
    assert_equal CABLES, read("config/cable.yml")
    refute_includes read("app/javascript/application.js") + read("config/importmap.rb") + read(LAYOUT), "cable"
    write "app/javascript/application.js", ""
    refute_includes install, "--cable", "there is no Turbo"
  end

  def test_an_import_map_gets_the_cable_before_turbo
    write "app/javascript/application.js", "// the app\n#{TURBO}"
    write "config/importmap.rb", "pin \"application\""
    write "config/cable.yml", CABLES
    assert_includes install("--cable"), "keys create pages --broadcast"
    assert_equal CABLES.sub("adapter: redis", "adapter: campanile"), read("config/cable.yml")
    assert_equal "// the app\nimport \"campanile/cable\"\n#{TURBO}import \"campanile/badge\"\n", read("app/javascript/application.js")
    assert_equal piece("cable.js"), read("vendor/javascript/campanile/cable.js")
    assert_includes read("config/importmap.rb"), Campanile::Generators::InstallGenerator::CABLE_PIN
    assert_includes read(LAYOUT), "    <%= campanile_cable_meta_tag %>\n  </head>"
    before = contents
    install("--cable")
    refute_includes install, "--cable"
    assert_equal before, contents
  end

  def test_a_bundler_gets_the_cable_as_a_file_that_it_finds
    write "app/javascript/application.js", TURBO
    write "config/cable.yml", "production:\n\n  # Rails 8's\n  adapter: solid_cable\n\ntest:\n  adapter: test"
    install("--cable")
    assert read("app/javascript/application.js").start_with?("import \"./campanile/cable\"\n#{TURBO}")
    assert_equal piece("cable.js"), read("app/javascript/campanile/cable.js")
    assert_equal "production:\n\n  # Rails 8's\n  adapter: campanile\n\ntest:\n  adapter: test", read("config/cable.yml")
  end

  def test_what_the_cable_can_not_be_placed_in_is_printed
    write LAYOUT, read(LAYOUT).sub("</head>", "<%= action_cable_meta_tag %></head>")
    write "config/cable.yml", "default: &default\n  adapter: redis\nproduction:\n  <<: *default\ntest:\n  adapter: test\n"
    before = read("config/cable.yml")
    said = install("--cable")
    ["production:\n    adapter: campanile", "campanile-cable.js", "campanile_cable_meta_tag || action_cable_meta_tag"].each { |what| assert_includes said, what }
    assert_equal before, read("config/cable.yml")
    write "config/importmap.rb", ""
    assert_includes install("--cable"), 'import "campanile/cable"'
  end

  # An import before turbo-rails' own may bring turbo-rails.
  def test_the_cable_comes_before_the_first_import_and_once
    write "app/javascript/application.js", "import(\"later\")\nimport {\n  start\n} from \"controllers\"\n#{TURBO}"
    2.times { install("--cable") }
    assert read("app/javascript/application.js").start_with?("import(\"later\")\nimport \"./campanile/cable\"\nimport {\n  start\n} from")
    assert_equal 1, read("app/javascript/application.js").scan("campanile/cable").size
  end

  def test_the_cables_import_with_other_quotes_is_one
    write "app/javascript/application.js", "import './campanile/cable'\n#{TURBO}"
    install("--cable")
    assert_equal 1, read("app/javascript/application.js").scan("campanile/cable").size
  end

  {
    'adapter: <%= ENV.fetch("CABLE_ADAPTER") { "redis" } %>' => nil,
    "adapter: redis-6" => nil,
    'adapter: "redis" # the cluster' => "adapter: campanile # the cluster"
  }.each do |line, expected|
    define_method(:"test_the_cables_#{line}_is_replaced_or_told") do
      write "config/cable.yml", "development:\n  adapter: campanile\nproduction:\n  #{line}\n  url: x\n"
      said = install("--cable")
      assert_equal "development:\n  adapter: campanile\nproduction:\n  #{expected || line}\n  url: x\n", read("config/cable.yml")
      assert_equal expected.nil?, said.include?("production:\n    adapter: campanile")
    end
  end

  def test_channels_of_the_apps_own_keep_their_adapter_and_it_is_told
    write "config/cable.yml", CABLES
    write "app/channels/application_cable/other_channel.rb", ""
    write "app/channels/chat/room_channel.rb", ""
    said = install("--cable")
    assert_includes said, "app/channels/chat/room_channel.rb hear only broadcasts of their own process"
    assert_includes said, "production:\n    adapter: campanile"
    assert_equal CABLES, read("config/cable.yml")
  end

  {
    "inactive" => ["# Rails.application.config.content_security_policy do |policy|\n# end\n", nil],
    "without connect_src" => [
      "Rails.application.config.content_security_policy do |policy|\n  policy.default_src :self\nend\n",
      "Rails.application.config.content_security_policy do |policy|\n  policy.connect_src :self, *Campanile.configuration.origins\n  policy.default_src :self\nend\n"
    ],
    "with connect_src" => [
      "Rails.application.configure do\n  config.content_security_policy do |policy|\n    policy.connect_src :self, :https\n  end\nend\n",
      "Rails.application.configure do\n  config.content_security_policy do |policy|\n    policy.connect_src :self, :https, *Campanile.configuration.origins\n  end\nend\n"
    ]
  }.each do |name, (policy, expected)|
    define_method(:"test_a_content_security_policy_#{name}") do
      write "config/initializers/content_security_policy.rb", policy
      2.times { install }
      assert_equal expected || policy, read("config/initializers/content_security_policy.rb")
    end
  end

  {
    "over two lines" => "policy.connect_src :self,\n    :https",
    "with a condition" => 'policy.connect_src :self, "ws://localhost:3035" if Rails.env.development?',
    "with a value in a text" => 'policy.connect_src :self, "ws://#{ViteRuby.config.host}"',
    "with parentheses and a comment" => "policy.connect_src(:self) # calls",
  }.each do |name, line|
    define_method(:"test_a_policy_#{name}_stays_and_is_told") do
      write "config/initializers/content_security_policy.rb", "Rails.application.config.content_security_policy do |policy|\n  #{line}\nend\n"
      before = read("config/initializers/content_security_policy.rb")
      assert_includes install, "*Campanile.configuration.origins"
      assert_equal before, read("config/initializers/content_security_policy.rb")
    end
  end

  def test_files_without_a_last_line_end_stay_whole
    write "config/importmap.rb", 'pin "application"'
    write "app/javascript/application.js", 'import "controllers"'
    write "Procfile.dev", "web: bin/rails server\ncss: bin/rails tailwindcss:watch"
    install
    assert_includes read("config/importmap.rb"), "pin \"application\"\npin \"campanile/badge\""
    assert_includes read("app/javascript/application.js"), "import \"controllers\"\nimport \"campanile/badge\"\n"
    assert_includes read("Procfile.dev"), "tailwindcss:watch\ncampanile: sh"
  end

  def test_routes_of_the_apps_own_stay_first
    write "config/routes.rb", "Rails.application.routes.draw do\n  resources :notifications, controller: \"alerts\"\nend\n"
    assert_includes install, "post :mark_all_read"
    refute_includes read("config/routes.rb"), "mark_all_read"
    assert_includes read("config/routes.rb"), "resource :campanile_token"
  end

  def test_a_body_with_attributes_on_one_line_gets_the_number_inside
    write LAYOUT, "<html><head>\n  <%= yield(:head) %>\n</head><body data-a=\"<%= 1 > 0 %>\"><p></p></body></html>\n"
    install
    assert_includes read(LAYOUT), "<body data-a=\"<%= 1 > 0 %>\">\n    <%= render \"notifications/number\" %><p></p></body>"
    assert_equal 1, read(LAYOUT).scan(":head").size
  end

  def test_what_can_not_be_placed_is_printed
    File.delete(File.join(@app, LAYOUT))
    write "config/deploy.yml", "service: shop\n"
    said = install
    assert_includes said, '<%= render "notifications/number" %>'
    assert_includes said, "image: registry.example.com/campanile"
    assert_includes said, "campanile_sign_out_data"
    assert_equal "service: shop\n", read("config/deploy.yml")
  end

  def test_rails_8s_authentication_answers_401_to_an_app
    write "app/controllers/application_controller.rb", "class ApplicationController < ActionController::Base\n  include Authentication # generated\nend\n"
    2.times { install }
    assert_equal "class ApplicationController < ActionController::Base\n  include Authentication # generated\n  include Campanile::NativeApp::Authentication\nend\n",
                 read("app/controllers/application_controller.rb")
  end

  def test_the_procfile_gets_the_server_once_and_git_ignores_its_secrets
    write "Procfile.dev", "web: bin/rails server\n"
    write ".gitignore", "/log/*\n"
    2.times { install }
    assert_equal "web: bin/rails server\n#{Campanile::Generators::InstallGenerator::SERVER}", read("Procfile.dev")
    assert_equal "/log/*\n\n/storage/campanile.*\n", read(".gitignore")
  end

  # Puma prints the second of them, and Ruby's own localhost may be the third.
  def test_the_procfiles_server_lets_pages_of_every_name_of_this_computer_in
    install
    origins = read("Procfile.dev")[/CAMPANILE_ALLOWED_ORIGINS='(\S+)'/, 1].split(",")
    assert_equal %w[http://localhost:3000 http://127.0.0.1:3000 http://[::1]:3000 http://10.0.2.2:3000], origins
    assert_match(/^web: .* --port 3000$/, read("Procfile.dev"))
  end

  # foreman's own is 5000, which a `web: bin/rails server` of the app's own takes.
  def test_what_is_typed_has_foreman_give_rails_its_port
    commands = File.read(File.expand_path("../README.md", __dir__)).scan(/foreman start[^`&\n]*/)
    assert_equal ["foreman start -f Procfile.dev -p 3000"], commands.map(&:strip).uniq
  end

  def test_the_pages_of_an_app_that_was_installed
    self.class.run_in(@app, "bin/rails", "generate", "campanile:install", "--cable")
    FileUtils.cp(File.join(__dir__, "install_pages.rb"), @app)
    environment = { CAMPANILE_URL: World.url, CAMPANILE_KEY: World.key, CAMPANILE_JWT_SECRET: World::SECRET, TEST_USER: user }
    said = self.class.run_in(@app, "bin/rails", "runner", "install_pages.rb", **environment)
    assert_includes said, "the pages are right"
  end

  private

  # Answers what it prints.
  def install(*options) = capture_io { Campanile::Generators::InstallGenerator.start(options, destination_root: @app) }.join

  def write(path, text)
    full = File.join(@app, path)
    FileUtils.mkdir_p(File.dirname(full))
    File.write(full, text)
  end

  def read(path) = File.read(File.join(@app, path))

  def contents
    Dir[File.join(@app, "**/*"), File.join(@app, ".gitignore")].reject { |path| File.directory?(path) || path.match?(%r{/(log|tmp)/}) }.to_h { |path| [path, File.binread(path)] }
  end

  # As the server has it.
  def piece(name) = File.read(File.join(World::REPOSITORY, "Sources/CampanileServer/web", { "badge.js" => "campanile-badge.js", "cable.js" => "campanile-cable.js" }.fetch(name, name)))
end
