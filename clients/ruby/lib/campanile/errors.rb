module Campanile
  # Anything that goes wrong in this library.
  class Error < StandardError; end

  # A setting is missing or can't be used. The message names it.
  class ConfigurationError < Error; end

  # What another attempt may mend: a job comes back for these (`retry_on Campanile::Passing, **Campanile::PATIENCE`).
  module Passing; end

  # How long a job of ActiveJob's comes back: for over an hour.
  PATIENCE = { attempts: 12, wait: ->(executions) { 2**executions + rand(5) } }.freeze

  # No answer came: nothing listens, the connection was lost, or the time was over. The call may have taken effect. `cause` is what
  # Ruby raised.
  class Unreachable < Error
    include Passing
  end

  # An answer that isn't a success (RFC 9457). Each code that a server knows has a class of its own below; another code, or an answer
  # that isn't a problem of Campanile's, such as a proxy's, is this class itself. Those that another attempt may mend are Passing.
  class Problem < Error
    # What proxies answer without a code of the server's while no server is behind them.
    PROXIES = [404, 408].freeze
    # Characters of a message.
    MESSAGE_SIZE = 500

    # The HTTP status, an Integer.
    attr_reader :status
    # How often the call was made.
    attr_accessor :attempts
    # Seconds to wait before another attempt, as the server asks; nil if it doesn't.
    attr_reader :retry_after

    # The class for an answer, with what it says.
    def self.of(status:, body:, content_type:, retry_after: nil)
      members = content_type == "application/problem+json" ? JSON.parse(body) : {}
      members = {} unless members.is_a?(Hash)
      (CODES[members["code"]] || Problem).new(status: status, members: members, body: body, retry_after: retry_after)
    rescue JSON::ParserError
      new(status: status, members: {}, body: body, retry_after: retry_after)
    end

    def initialize(status:, members:, body: nil, retry_after: nil)
      @status, @members, @retry_after, @attempts = status, members, retry_after, 1
      super(text([status, code, detail || body].compact))
      extend(Passing) if passing?
    end

    # The stable code, such as "invalid"; nil for an answer that isn't a problem of Campanile's.
    def code = @members["code"]

    # A sentence about this case; nil where there is none.
    def detail = @members["detail"]

    # [{"field", "code", "message"}] for each field at fault.
    def errors = @members["errors"] || []

    # Names the call in the server's log.
    def request_id = @members["request_id"]

    # The notification that has the external id already (ExternalIdTaken); nil if the server doesn't know it.
    def notification_id = @members["notification_id"]

    private

    # What a database's text takes, whatever bytes came: UTF-8 without NUL, whole characters.
    def text(parts) = parts.map { |part| part.to_s.b }.join(" ").force_encoding(Encoding::UTF_8).scrub.delete("\0")[0, MESSAGE_SIZE]

    # Whether the server, or a proxy in front of it, may answer the next attempt better.
    def passing? = status == 429 || (status >= 500 && status != 501) || (code.nil? && PROXIES.include?(status))
  end

  class MalformedRequest < Problem; end
  class MalformedJson < Problem; end
  class Unauthorized < Problem; end
  class Forbidden < Problem; end
  class NotFound < Problem; end
  class MethodNotAllowed < Problem; end
  class IdempotencyConflict < Problem
    include Passing
  end
  class IdempotencyMismatch < Problem; end
  class IdempotencyKeyRequired < Problem; end
  class ExternalIdTaken < Problem; end
  class BadgeIsGiven < Problem; end
  class BadgeIsNotGiven < Problem; end
  class TooManyTenants < Problem; end
  class BodyTooLarge < Problem; end
  class UriTooLong < Problem; end
  class UnsupportedMediaType < Problem; end
  class Invalid < Problem; end
  class UpgradeRequired < Problem; end
  class TooManyStreams < Problem; end
  class HeadersTooLarge < Problem; end
  class Unavailable < Problem; end
  class InternalError < Problem; end

  class Problem
    # Each code with its class: invalid and Invalid, idempotency_mismatch and IdempotencyMismatch.
    CODES = Problem.subclasses.to_h { |kind| [kind.name.delete_prefix("Campanile::").gsub(/(?<=.)[A-Z]/) { "_#{_1}" }.downcase, kind] }.freeze
  end
end
