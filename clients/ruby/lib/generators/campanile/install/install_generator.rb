require "rails/generators"

module Campanile
  module Generators
    # `rails generate campanile:install`: the inbox's page, the number in the layout, user tokens for pages and apps, and Campanile beside Rails in
    # development; with --cable the app's own broadcasts. What is there already stays as it is, so that a second run changes nothing; what it can't
    # place it prints.
    class InstallGenerator < Rails::Generators::Base
      source_root File.expand_path("templates", __dir__)
      class_option :cable, type: :boolean, default: false, desc: "In production have the app's own Turbo broadcasts go through Campanile"

      VIEWS = %w[index _notification _change unavailable _number _badge].freeze
      TOKEN_ROUTE = "resource :campanile_token, only: :create\n"
      INBOX_ROUTES = <<~RUBY
        resources :notifications, only: %i[index update destroy] do
          post :mark_all_read, on: :collection
        end
      RUBY
      PINS = <<~RUBY
        pin "campanile/badge", to: "campanile/badge.js"
        pin "campanile/badge_controller", to: "campanile/badge_controller.js"
      RUBY
      CABLE_PIN = "pin \"campanile/cable\", to: \"campanile/cable.js\"\n"
      CABLE_YAML = <<~YAML
        allowed_origins: ["https://www.example.com"]
        cable:
          secret_key_base: the Rails application's secret_key_base
          signed_streams_only: true
      YAML
      CABLE_TAG = '<script type="module" src="https://push.example.com/assets/campanile-cable.js"></script>'
      TURBO = %r{^import [^\n]*["']@hotwired/turbo-rails["'].*\n?}
      # The adapter of the production's section alone: a plain word, and no ERB.
      PRODUCTION = /^(production:[^\n]*\n(?:(?: [^\n]*)?\n)*? +adapter:)/
      ADAPTER = /#{PRODUCTION} *(?!campanile\b)["']?\w+["']?(?= *(?:#[^\n]*)?$)/
      ADAPTED = /#{PRODUCTION} *["']?campanile\b/
      # Whatever stands before the first import; it matches once.
      BEFORE_IMPORTS = /\A(?:(?!import\b(?! *[(.]))[^\n]*\n)*(?=import\b(?! *[(.]))/
      CABLE_IMPORT = %r{^import +["'](?:\./)?campanile/cable(?:\.js)?["']}
      # Pages by each name that this computer has in a browser; the last is an Android emulator's.
      PAGES = "http://localhost:3000,http://127.0.0.1:3000,http://[::1]:3000,http://10.0.2.2:3000"
      SERVER = 'campanile: sh -c "mkdir -p storage; test -s storage/campanile.key || campanile keys create rails --database storage/campanile.sqlite > storage/campanile.key; ' \
               "exec env CAMPANILE_ALLOWED_ORIGINS='#{PAGES}' campanile serve --port 3001 --database storage/campanile.sqlite\"\n"
      WEB = "web: env RAILS_MAX_THREADS=5 bin/rails server --port 3000\n"
      RULE = "<style nonce=\"<%= content_security_policy_nonce %>\">.native-app .native-back { display: none !important }</style>\n"
      POLICY = /^ *[^#\s].*content_security_policy do \|policy\|\n/
      # One whole line without a comment, a condition or a value in a text.
      PLAIN_CONNECT = /^( *policy\.connect_src (?!.* (?:if|unless) )[^#\n]*[^#\s,\\])$/
      NATIVE_BODY = '<body class="<%= "native-app" if campanile_native_app? %>">'

      def settings = place("initializer.rb", "config/initializers/campanile.rb")

      def controllers
        %w[notifications_controller.rb campanile_tokens_controller.rb].each { |name| place("controllers/#{name}", "app/controllers/#{name}") }
        controller = text("app/controllers/application_controller.rb").to_s
        return if controller.include?("Campanile::NativeApp::Authentication") || !controller.match?(/include .*\bAuthentication\b/)

        # After Rails 8's own, so that it goes before it.
        inject_into_file "app/controllers/application_controller.rb", "  include Campanile::NativeApp::Authentication\n",
                         after: /^ *include .*\bAuthentication\b.*\n/
      end

      def views = VIEWS.each { |name| place("views/#{name}.html.erb", "app/views/notifications/#{name}.html.erb") }

      def routes
        routes = text("config/routes.rb").to_s
        return if routes.include?("resource :campanile_token")
        return route(TOKEN_ROUTE + INBOX_ROUTES) unless routes.match?(/^[^#\n]*\bnotifications\b/)

        route(TOKEN_ROUTE)
        by_hand("config/routes.rb has notifications of its own. What the inbox's page needs:", INBOX_ROUTES)
      end

      def layout
        into_layout(/yield[ (]:head/, "    <%= yield :head %>\n", before: %r{^ *</head>}) unless text(LAYOUT).to_s.match?(/content_for[ (]:head/)
        into_layout(/\.native-back/, RULE.indent(4), before: %r{^ *</head>})
        into_layout(/campanile_native_app\?/, NATIVE_BODY, replacing: "<body>")
        into_layout(%r{notifications/number}, "\n    <%= render \"notifications/number\" %>", after: /<body(?:<%.*?%>|[^>\n])*>/)
      end

      def javascript
        if text("config/importmap.rb") then import_map
        elsif text("app/javascript/application.js") then bundle
        else without_modules
        end
      end

      def cable
        adapter = text("config/cable.yml").to_s
        return offer_cable(adapter) unless options[:cable]

        cable_adapter(adapter) unless adapter.match?(ADAPTED)
        cable_javascript
        cable_layout
        by_hand("On the server, the key for CAMPANILE_BROADCAST_KEY:", "campanile keys create pages --broadcast")
        by_hand("In its campanile.yaml, the origin of the app's pages, and its secret, which signs the names of streams:", CABLE_YAML)
      end

      def content_security_policy
        path = "config/initializers/content_security_policy.rb"
        policy = text(path).to_s
        return if policy.include?("Campanile.configuration.origins") || !policy.match?(/^ *[^#\s].*content_security_policy do/)

        lines = policy.lines.grep(/^ *\w+\.connect_src/)
        if lines.empty? && policy.match?(POLICY)
          inject_into_file(path, "  policy.connect_src :self, *Campanile.configuration.origins\n", after: POLICY)
        elsif lines.one? && lines[0].match?(PLAIN_CONNECT)
          gsub_file(path, PLAIN_CONNECT, '\1, *Campanile.configuration.origins')
        else
          by_hand("#{path}, in connect_src:", "*Campanile.configuration.origins")
        end
      end

      def development
        created = text("Procfile.dev").nil?
        create_file("Procfile.dev", WEB) if created
        append("Procfile.dev", SERVER) unless text("Procfile.dev").match?(/^campanile:/)
        ignored = text(".gitignore").to_s
        append(".gitignore", "\n/storage/campanile.*\n") unless ignored.empty? || ignored.match?(%r{^/storage/(\*|campanile)})
      end

      def kamal
        deploy = text("config/deploy.yml")
        return if deploy.nil? || deploy.include?("campanile")

        by_hand("config/deploy.yml: among the accessories, with an image that you built of Campanile's Dockerfile:", <<~YAML)
          campanile:
            image: registry.example.com/campanile
            host: 192.0.2.1
            port: "127.0.0.1:3001:3001"
            env:
              secret:
                - CAMPANILE_JWT_SECRET
            directories:
              - data:/data
        YAML
      end

      def sign_out
        return if Dir[File.join(destination_root, "app/views/**/*.erb")].any? { |path| File.read(path).include?("campanile_sign_out_data") }

        by_hand("The form that signs out, so that an app around the page deletes its device token first:",
                '<%= button_to "Sign out", session_path, method: :delete, form: { data: campanile_sign_out_data } %>')
      end

      private

      LAYOUT = "app/views/layouts/application.html.erb"

      def text(path)
        full = File.join(destination_root, path)
        File.read(full) if File.exist?(full)
      end

      # After a last line that may lack its end.
      def append(path, lines)
        append_to_file(path, text(path).match?(/[^\n]\z/) ? "\n#{lines}" : lines)
      end

      # A file of the app's own is the app's.
      def place(template, path)
        return copy_file(template, path) unless text(path)

        say_status(:exist, path, :blue)
        return if path.end_with?(".js", ".erb") || text(path).include?("Campanile")

        by_hand("#{path} is another one; what it needs:", File.read(find_in_source_paths(template)))
      end

      def into_layout(mark, line, before: nil, after: nil, replacing: nil)
        layout = text(LAYOUT).to_s
        return if layout.match?(mark)

        if replacing
          return gsub_file(LAYOUT, replacing, line) if layout.include?(replacing)
        elsif layout.match?(before || after)
          return before ? inject_into_file(LAYOUT, line, before: before) : inject_into_file(LAYOUT, line, after: after)
        end
        by_hand("The layout:", line.strip)
      end

      def import_map
        modules_in "vendor/javascript/campanile"
        bridge
        append("config/importmap.rb", PINS) unless text("config/importmap.rb").include?("campanile/badge")
        import_line('import "campanile/badge"')
        return if text("config/importmap.rb").include?("hotwire-native-bridge")

        by_hand("For an app around the page:", "bin/importmap pin @hotwired/hotwire-native-bridge")
      end

      # A bundler: the modules are files of the app's own.
      def bundle
        modules_in "app/javascript/campanile"
        bridge
        path = "app/javascript/controllers/bridge/badge_controller.js"
        gsub_file(path, '"campanile/badge_controller"', '"../../campanile/badge_controller"') if text(path).include?('"campanile/badge_controller"')
        import_line('import "./campanile/badge"')
        return if text("package.json").to_s.include?("hotwire-native-bridge")

        by_hand("For an app around the page:", "yarn add @hotwired/hotwire-native-bridge\nbin/rails stimulus:manifest:update")
      end

      def offer_cable(adapter)
        return if adapter.empty? || adapter.match?(ADAPTED)
        return unless text("app/javascript/application.js").to_s.match?(TURBO)

        by_hand("If the app's own Turbo broadcasts are to go through Campanile too:", "bin/rails generate campanile:install --cable")
      end

      # Channels of the app's own would lose the broadcasts of other processes: whoever has some decides.
      def cable_adapter(adapter)
        line = "production:\n  adapter: campanile"
        if channels.any?
          by_hand("config/cable.yml, which stays as it is: with this adapter #{channels.join(", ")} hear only broadcasts of their own process:", line)
        elsif adapter.match?(ADAPTER) then gsub_file("config/cable.yml", ADAPTER, '\1 campanile')
        else by_hand("config/cable.yml:", line)
        end
      end

      def channels
        Dir.glob("app/channels/**/*_channel.rb", base: destination_root).reject { |path| path.start_with?("app/channels/application_cable/") }.sort
      end

      # The element has to be there before turbo-rails looks for it, which any import may bring.
      def cable_javascript
        map, path = text("config/importmap.rb"), "app/javascript/application.js"
        return by_hand("A module, before turbo-rails':", CABLE_TAG) unless map || text(path)

        place("javascript/campanile/cable.js", "#{map ? "vendor" : "app"}/javascript/campanile/cable.js")
        append("config/importmap.rb", CABLE_PIN) if map && !map.include?("campanile/cable")
        line = "import \"#{"./" unless map}campanile/cable\"\n"
        return if text(path).to_s.match?(CABLE_IMPORT)
        return by_hand("Where the app's JavaScript begins, before turbo-rails:", line) unless text(path).to_s.match?(BEFORE_IMPORTS)

        inject_into_file(path, line, after: BEFORE_IMPORTS)
      end

      def cable_layout
        unless text(LAYOUT).to_s.match?(/action_cable_meta_tag|action-cable-url/)
          return into_layout(/campanile_cable_meta_tag/, "    <%= campanile_cable_meta_tag %>\n", before: %r{^ *</head>})
        end
        by_hand("In the layout, in the place of action_cable_meta_tag:", "<%= campanile_cable_meta_tag || action_cable_meta_tag %>")
      end

      # Neither import map nor bundler: the element as a module by itself. The bridge of a native app needs one of them.
      def without_modules
        modules_in "public/campanile"
        into_layout(%r{/campanile/badge\.js}, "    <%= javascript_include_tag \"/campanile/badge.js\", type: \"module\", nonce: true %>\n", before: %r{^ *</head>})
      end

      def modules_in(folder)
        %w[badge.js badge_controller.js].each { |name| place("javascript/campanile/#{name}", "#{folder}/#{name}") }
      end

      def bridge
        %w[badge_controller.js notification_token_controller.js].each do |name|
          place("javascript/bridge/#{name}", "app/javascript/controllers/bridge/#{name}")
        end
      end

      def import_line(line)
        path = "app/javascript/application.js"
        return by_hand("Where the app's JavaScript begins:", line) unless text(path)

        append(path, "#{line}\n") unless text(path).include?(line)
      end

      def by_hand(where, what) = say("\n#{where}\n\n#{what.indent(2)}\n", :yellow)
    end
  end
end
