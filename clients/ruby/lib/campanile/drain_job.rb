require "active_job"

module Campanile
  # Sends what waits in the outbox. It comes back while the server can't be reached.
  class DrainJob < ActiveJob::Base
    retry_on Passing, **PATIENCE

    def perform = Outbox.drain
  end
end
