# The user's inbox as pages. Campanile keeps it, so there is no model and no table.
class NotificationsController < ApplicationController
  PAGE = 25
  TURBO_STREAM = "text/vnd.turbo-stream.html"

  # To be adapted: Devise's authenticate_user! instead. Rails 8's generated authentication has asked already.
  before_action { head :unauthorized unless helpers.campanile_user_id }
  before_action { @cursor = params[:cursor].to_s.presence }
  rescue_from Campanile::Error, with: :unavailable

  def index
    # A browser's copy would show as unread, at Back, what was read meanwhile; the view says the same to Turbo.
    response.headers["Cache-Control"] = "no-store"
    page = inbox.list(look_of: request, limit: PAGE, cursor: @cursor)
    @notifications, @next_cursor = page.notifications, page.next_cursor
    # The layout's number, after what this look cleared.
    @campanile_badge_count = page.badge.count
  end

  def mark_all_read
    inbox.mark_all_read(up_to: params[:up_to].to_s.presence)
    redirect_to notifications_path, status: :see_other
  end

  # Gone, or never theirs: then it leaves the page.
  def update
    answer(inbox.mark_read(params[:id]))
  rescue Campanile::NotFound
    answer(nil)
  end

  def destroy
    inbox.delete(params[:id])
    answer(nil)
  rescue Campanile::NotFound
    answer(nil)
  end

  private

  def inbox = @inbox ||= Campanile.inbox(helpers.campanile_user, attempts: 1, timeout: Campanile.configuration.page_timeout)

  # Turbo changes the one entry, and the reader stays where they are in the list. The number comes to the layout by its subscription.
  def answer(notification)
    return redirect_to(notifications_path, status: :see_other) unless request.accept.to_s.include?(TURBO_STREAM)

    render partial: "change", formats: :html, content_type: TURBO_STREAM, locals: { id: params[:id], notification: notification }
  end

  # The page says so, and the layout waits for no second call.
  def unavailable(error)
    logger.warn("Campanile is unavailable: #{error.message}")
    @campanile_badge_count = nil
    render "unavailable", status: :service_unavailable, formats: :html
  end
end
