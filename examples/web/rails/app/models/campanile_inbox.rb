require "json"
require "net/http"

# One user's inbox, which Campanile keeps: the calls that a page makes, with the standard library alone.
class CampanileInbox
  URL = ENV.fetch("CAMPANILE_URL", "http://localhost:3001")
  # Seconds for each step of a call. One of Puma's threads waits with it.
  PATIENCE = 2
  # By these Campanile tells an app's look, which clears the number, from a browser's, and from a page that is only prepared.
  LOOK = %w[User-Agent Sec-Purpose X-Sec-Purpose].freeze

  # Campanile gave no answer in time, or one that no page can be made of. The message is for the log.
  class Unavailable < StandardError; end

  # `token` is a user token: Campanile shows and changes the entries of its user and of nobody else.
  def initialize(token, patience: PATIENCE)
    @token = token
    @patience = patience
  end

  # {"notifications", "next_cursor", "badge"}, newest first; the badge is the number after this look.
  def list(look_of:, limit:, cursor: nil)
    headers = LOOK.to_h { |name| [name, look_of.headers[name]] }.compact
    call(Net::HTTP::Get, "/notifications?#{URI.encode_www_form({ limit: limit, cursor: cursor }.compact)}", headers: headers)
  end

  def badge = call(Net::HTTP::Get, "/badge")

  # `up_to` is the newest id that the user saw: what came later stays unread.
  def mark_all_read(up_to: nil) = call(Net::HTTP::Post, "/notifications/mark_all_read", { up_to: up_to }.compact)

  # The notification; nil when it is gone, or was never theirs.
  def mark_read(id) = call_about(id, Net::HTTP::Patch, { read: true })

  def delete(id) = call_about(id, Net::HTTP::Delete)

  private

  def call_about(id, kind, body = nil)
    call(kind, "/notifications/#{URI.encode_www_form_component(id)}", body, gone: Net::HTTPNotFound)
  end

  def call(kind, path, body = nil, headers: {}, gone: nil)
    uri = URI(URL + path)
    request = kind.new(uri, headers.merge("Authorization" => "Bearer #{@token}"))
    if body
      request.content_type = "application/json"
      request.body = JSON.generate(body)
    end
    answer = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https", **limits) { |http| http.request(request) }
    case answer
    when Net::HTTPOK then JSON.parse(answer.body)
    when Net::HTTPNoContent, gone then nil
    else raise "the answer was #{answer.code}" # 401: CAMPANILE_JWT_SECRET isn't Campanile's
    end
  rescue StandardError => error
    raise Unavailable, "#{kind::METHOD} #{path}: #{error.message}"
  end

  # No second attempt, which Net::HTTP makes by itself: it would double the wait.
  def limits
    { open_timeout: @patience, ssl_timeout: @patience, write_timeout: @patience, read_timeout: @patience, max_retries: 0 }
  end
end
