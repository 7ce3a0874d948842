# An app for outbox.py, loaded once: for each line that it reads it forks a process that works until it is killed, and prints its number.
#
#   work USER…       orders, each with a notification by the outbox, in a transaction; one in four is rolled back
#   commit USER…     the same, with the call after the commit, as an app without an outbox makes it
#   drain            sends what is in the outbox
#   finish           sends all of it and ends
require "active_record"
require "active_job"
require "active_support/core_ext/numeric/bytes"
require "campanile"

# What an app enqueues runs elsewhere: in `drain`.
class Elsewhere
  def enqueue(_job) = nil

  def enqueue_at(_job, _time) = nil
end

ActiveJob::Base.logger = Logger.new(nil)
ActiveJob::Base.queue_adapter = Elsewhere.new
ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ENV.fetch("APP_DATABASE"))

# sqlite3 1.4's own timeout keeps Ruby's lock while it waits, so that a thread which has the database can't go on. Rails 7.1 does as here.
module PatientConnections
  def configure_connection
    super
    @connection.busy_handler { |count| sleep(0.002) && count < 10_000 }
  end
end
require "active_record/connection_adapters/sqlite3_adapter"
ActiveRecord::ConnectionAdapters::SQLite3Adapter.prepend(PatientConnections)

class Order < ActiveRecord::Base
  attr_accessor :tells

  after_commit(on: :create) { Campanile.notify(user, title: name, push: false) if tells }
end

module App
  # A drain that was killed is followed after this many seconds; an app has a minute.
  CLAIM_SECONDS = 0.3
  Campanile::Outbox::Drain.send(:remove_const, :CLAIM_SECONDS)
  Campanile::Outbox::Drain.const_set(:CLAIM_SECONDS, CLAIM_SECONDS)

  module_function

  def prepare
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Base.connection.execute("PRAGMA journal_mode = WAL")
    return if ActiveRecord::Base.connection.table_exists?(:orders)

    ActiveRecord::Schema.define do
      create_table(:orders) do |t|
        t.string :user
        t.string :name
      end
    end
    load ENV.fetch("MIGRATION")
    CreateCampanileOutbox.suppress_messages { CreateCampanileOutbox.new.change }
  end

  def order(user, by_outbox:, rolls_back: rand(4).zero?)
    name = SecureRandom.uuid
    Order.transaction do
      Order.create!(user: user, name: name, tells: !by_outbox)
      Campanile::Outbox.notify(user, title: name, push: false) if by_outbox
      raise ActiveRecord::Rollback if rolls_back
    end
  end

  # Until it is killed, or the loaded process is.
  def again
    loaded = Process.ppid
    yield while Process.ppid == loaded
  end

  def work(users, by_outbox:)
    again do
      order(users.sample, by_outbox: by_outbox)
      sleep 0.003
    rescue Campanile::Error
      nil # the call after the commit: the order is there
    end
  end

  def drain
    again do
      Campanile::Outbox.drain
      sleep 0.002
    rescue Campanile::Error
      sleep 0.01
    end
  end

  def finish
    until Campanile::Outbox::Row.count.zero?
      abort "refused: #{Campanile::Outbox::Row.refused.first.problem}" if Campanile::Outbox::Row.refused.any?
      Campanile::Outbox.drain
      sleep 0.01
    end
  end

  def run(verb, users)
    case verb
    when "work" then work(users, by_outbox: true)
    when "commit" then work(users, by_outbox: false)
    when "drain" then drain
    when "finish" then finish
    end
  end
end

App.prepare
return unless $PROGRAM_NAME == __FILE__

$stdout.sync = true
puts "ready"
while (line = gets)
  verb, *users = line.split
  process = fork do
    srand
    App.run(verb, users)
    exit!(0)
  end
  Process.detach(process)
  puts process
end
