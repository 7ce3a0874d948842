require "rails/generators"
require "rails/generators/active_record"

module Campanile
  module Generators
    # `rails generate campanile:outbox`: the migration of the outbox's table.
    class OutboxGenerator < Rails::Generators::Base
      include ActiveRecord::Generators::Migration

      source_root File.expand_path("templates", __dir__)

      def create_migration_file
        return if self.class.migration_exists?(File.join(destination_root, "db/migrate"), "create_campanile_outbox")

        migration_template "create_campanile_outbox.rb.tt", "db/migrate/create_campanile_outbox.rb"
      end
    end
  end
end
